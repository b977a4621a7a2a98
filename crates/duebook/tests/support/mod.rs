//! The real binary as a child process: started on a free port, killed, started again on the same data.
#![allow(dead_code)] // each test program uses a part of it

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running `duebook serve`.
pub(crate) struct Node {
    child: Child,
    pub(crate) url: String,
}

impl Node {
    /// Starts the binary on `data`, listening on `port` (0: any), and waits until it says that it listens.
    pub(crate) fn start(data: &Path, port: u16, config: Option<&Path>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duebook"));
        command.arg("serve").arg("--listen").arg(format!("127.0.0.1:{port}")).arg("--data").arg(data);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        let mut child = command
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let url = loop {
            let line = lines.next().expect("it listens before it ends").expect("its output is text");
            if let Some(url) = line.strip_prefix("duebook listening on ") {
                break url.trim().to_owned();
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it has ended");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a configuration file.
pub(crate) fn config(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("duebook.toml");
    std::fs::write(&path, text).expect("the file is written");
    path
}
