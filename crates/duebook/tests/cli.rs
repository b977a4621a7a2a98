//! The program as its users call it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

fn duebook(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebook"));
    command.args(args).env_remove("RUST_LOG");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DUEBOOK_")) {
        command.env_remove(name);
    }
    command
}

fn run(args: &[&str]) -> Output {
    duebook(args).output().unwrap()
}

#[track_caller]
fn code(output: &Output, expected: i32) -> String {
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(expected), "{text}");
    text
}

struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    fn start(data: &Path, more: &[&str]) -> Self {
        let data = data.display().to_string();
        let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--data", &data];
        args.extend(more);
        let mut child = duebook(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("duebook listening on ").expect(&line).to_owned();
        Self { child, url }
    }

    /// SIGTERM; answers the exit code.
    fn stop(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request over a plain connection; answers the whole answer.
fn http(url: &str, head: &str, body: &str) -> String {
    use std::io::{Read as _, Write as _};
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_task_is_scheduled_told_and_kept_over_a_restart() {
    let dir = TempDir::new().unwrap();
    let serving = Serving::start(dir.path(), &["--log", "json"]);
    let body = r#"{"queue":"orders","key":"o-1","delay_ms":3600000,"payload":{"n":1}}"#;
    assert!(http(&serving.url, "POST /v1/tasks", body).starts_with("HTTP/1.1 201"));
    let story = code(&run(&["task", "o-1", "--server", &serving.url]), 0);
    assert!(story.contains("key o-1") && story.contains("scheduled") && story.contains("by api"), "{story}");
    let json = code(&run(&["task", "o-1", "--queue", "orders", "--server", &serving.url, "--json"]), 0);
    let id =
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["task"]["id"].as_str().unwrap().to_owned();
    assert!(code(&run(&["task", "nothing", "--server", &serving.url]), 1).contains("no task"));
    assert_eq!(serving.stop(), Some(0));
    let serving = Serving::start(dir.path(), &[]);
    assert!(code(&run(&["task", &id, "--server", &serving.url]), 0).contains("key o-1"));
    let second = run(&["serve", "--listen", "127.0.0.1:0", "--data", &dir.path().display().to_string()]);
    assert!(code(&second, 1).contains("in use"), "two servers never share a data directory");
    assert_eq!(serving.stop(), Some(0));
    assert!(code(&run(&["task", &id, "--server", "http://127.0.0.1:1"]), 1).contains("duebook serve"));
}

#[test]
fn keys_are_made_listed_and_revoked_with_and_without_a_server() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().display().to_string();
    let make = |name: &str, scopes: &str| {
        let output = run(&["keys", "create", "--name", name, "--scopes", scopes, "--data", &data]);
        code(&output, 0);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let root = make("root", "admin");
    let shop = make("shop", "produce,work");
    assert!(root.starts_with("dbk_") && shop.starts_with("dbk_"));
    let list = code(&run(&["keys", "list", "--data", &data]), 0);
    assert!(list.contains("root") && list.contains("produce,work") && !list.contains(&shop), "{list}");
    let serving = Serving::start(dir.path(), &[]);
    assert!(http(&serving.url, "GET /v1/queues", "").starts_with("HTTP/1.1 401"));
    assert!(code(&run(&["keys", "list", "--data", &data]), 1).contains("--server"));
    let remote = |args: &[&str], key: &str| {
        duebook(args).env("DUEBOOK_KEY", key).env("DUEBOOK_SERVER", &serving.url).output().unwrap()
    };
    assert!(code(&remote(&["keys", "list"], &shop), 1).contains("forbidden"));
    let made = remote(&["keys", "create", "--name", "desk", "--scopes", "read", "--queues", "a,b"], &root);
    code(&made, 0);
    let id = shop.split('_').nth(1).unwrap();
    assert!(code(&remote(&["keys", "revoke", id], &root), 0).contains("revoked"));
    assert!(code(&remote(&["keys", "revoke", id], &root), 1).contains("no active key"));
    let list = code(&remote(&["keys", "list"], &root), 0);
    assert!(list.contains("a,b") && list.contains("revoked 2"), "{list}");
    assert_eq!(serving.stop(), Some(0));
    assert!(code(&run(&["keys", "revoke", "nothing", "--data", &data]), 1).contains("no active key"));
    code(&run(&["keys", "create", "--name", "x", "--scopes", "write", "--data", &data]), 2);
    code(&run(&["keys", "create", "--name", "", "--scopes", "read", "--data", &data]), 2);
}

#[test]
fn wrong_usage_is_exit_code_2_and_says_what_is_wrong() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("duebook.toml");
    std::fs::write(&file, "lisen = \"127.0.0.1:0\"\n").unwrap();
    let file = file.display().to_string();
    let data = dir.path().display().to_string();
    for (args, words) in [
        (vec!["serve", "--config", &file], "lisen"),
        (vec!["serve", "--config", "/does/not/exist"], "/does/not/exist"),
        (vec!["serve", "--listen", "nowhere"], "--listen"),
        (vec!["serve", "--redis", "redis://127.0.0.1"], "not in this version"),
        (vec!["serve", "--bus", "nats://127.0.0.1"], "not in this version"),
        (vec!["serve", "--store", "postgres://127.0.0.1/x"], "not in this version"),
        (vec!["serve", "--retry", "never=1"], "never"),
        (vec!["serve", "--keep-dead", "7w"], "--keep-dead"),
        (vec!["serve", "--colour"], "--colour"),
        (vec!["nothing"], "nothing"),
    ] {
        let text = code(&run(&args), 2);
        assert!(text.contains(words), "{args:?}: {text}");
    }
    let public = run(&["serve", "--listen", "0.0.0.0:0", "--data", &data]);
    assert!(code(&public, 1).contains("duebook keys create"));
}

#[test]
fn environment_and_file_mean_the_same_as_flags() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("duebook.toml");
    let data = dir.path().join("data");
    let text = format!(
        "listen = \"127.0.0.1:1\"\ndata = {:?}\ngrace_ms = 100\n[retry.slow]\ndelays_ms = [60000]\n",
        data
    );
    std::fs::write(&file, text).unwrap();
    let mut child = duebook(&["serve"])
        .env("DUEBOOK_CONFIG", &file)
        .env("DUEBOOK_LISTEN", "127.0.0.1:0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("duebook listening on ").expect(&line).to_owned();
    let serving = Serving { child, url };
    let body = r#"{"queue":"q","key":"k","delay_ms":3600000,"retry":"slow"}"#;
    assert!(http(&serving.url, "POST /v1/tasks", body).starts_with("HTTP/1.1 201"));
    assert!(data.join("duebook.db").exists());
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn the_doctor_says_what_is_fine_and_what_to_do() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().display().to_string();
    let fresh = code(&run(&["doctor", "--data", &data]), 0);
    for word in ["config", "data", "disk", "fsync", "store", "clock"] {
        assert!(fresh.contains(word), "{word} in {fresh}");
    }
    let serving = Serving::start(dir.path(), &[]);
    assert!(code(&run(&["doctor", "--data", &data]), 0).contains("in use"));
    assert_eq!(serving.stop(), Some(0));
    assert!(code(&run(&["doctor", "--data", &data]), 0).contains("schema version"));
    let public = code(&run(&["doctor", "--data", &data, "--listen", "0.0.0.0:7700"]), 1);
    assert!(public.contains("finding  keys"), "{public}");
    std::fs::write(
        dir.path().join("duebook.db"),
        b"this is not a database, but long enough to be read as one",
    )
    .unwrap();
    for beside in ["duebook.db-wal", "duebook.db-shm"] {
        let _ = std::fs::remove_file(dir.path().join(beside));
    }
    assert!(code(&run(&["doctor", "--data", &data]), 1).contains("finding  store"));
    assert!(code(&run(&["serve", "--data", &data, "--listen", "127.0.0.1:0"]), 1).contains("damaged"));
    assert!(code(&run(&["doctor", "--redis", "x", "--data", &data]), 1).contains("finding  config"));
}
