//! `duebook task`: one task's whole story.

mod story;

use crate::exit::{Failure, Outcome};
use crate::output;
use crate::remote::{Answer, Remote, ServerArgs};
use duebook_core::TaskId;
use serde_json::{Value, json};

/// Lives of a key that are told, the latest ones.
const LIVES_MAX: &str = "10";
const PAGES_MAX: usize = 100;

/// `duebook task`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The task's id, or its business key.
    #[arg(value_name = "KEY_OR_ID")]
    task: String,
    /// The key's queue [default: all queues are looked through].
    #[arg(long)]
    queue: Option<String>,
    /// The server.
    #[arg(long, env = "DUEBOOK_SERVER", value_name = "URL", default_value = "http://127.0.0.1:7700")]
    server: String,
    /// Print one JSON object per task instead.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: ServerArgs,
}

pub(super) async fn run(args: Args) -> Outcome {
    let remote = Remote::new(&args.server, args.remote)?;
    let tasks = find(&remote, &args.task, args.queue.as_deref()).await?;
    if tasks.is_empty() {
        let place = args.queue.map_or(String::new(), |queue| format!(" in the queue {queue:?}"));
        return Err(anyhow::anyhow!("there is no task with the id or key {:?}{place}", args.task).into());
    }
    for (at, task) in tasks.iter().enumerate() {
        let trail = trail(&remote, task["id"].as_str().unwrap_or_default()).await?;
        if args.json {
            output::line(&json!({ "task": task, "trail": trail }).to_string());
            continue;
        }
        if at > 0 {
            output::line("");
        }
        story::tell(task, &trail).iter().for_each(|line| output::line(line));
    }
    Ok(())
}

async fn find(remote: &Remote, text: &str, queue: Option<&str>) -> Result<Vec<Value>, Failure> {
    if queue.is_none()
        && text.parse::<TaskId>().is_ok()
        && let Answer::Ok(task) = remote.get(&["v1", "tasks", text], &[]).await?
    {
        return Ok(vec![task]);
    }
    let queues = match queue {
        Some(queue) => vec![queue.to_owned()],
        None => match remote.get(&["v1", "queues"], &[]).await? {
            Answer::Ok(answer) => list(&answer["items"])
                .iter()
                .filter_map(|queue| queue["queue"].as_str().map(str::to_owned))
                .collect(),
            Answer::NotFound => Vec::new(),
        },
    };
    let mut tasks = Vec::new();
    for queue in queues {
        let query = [("queue", queue.as_str()), ("key", text), ("limit", LIVES_MAX)];
        if let Answer::Ok(page) = remote.get(&["v1", "tasks"], &query).await? {
            tasks.extend(list(&page["items"]).iter().cloned());
        }
    }
    // Ids are in the order of creation.
    tasks.sort_by(|one, other| one["id"].as_str().cmp(&other["id"].as_str()));
    Ok(tasks)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

async fn trail(remote: &Remote, id: &str) -> Result<Vec<Value>, Failure> {
    let mut entries = Vec::new();
    let mut after_seq = 0;
    for _ in 0..PAGES_MAX {
        let query = [("after_seq", &*after_seq.to_string())];
        let Answer::Ok(page) = remote.get(&["v1", "tasks", id, "trail"], &query).await? else { break };
        entries.extend(list(&page["items"]).iter().cloned());
        match page["next_after_seq"].as_u64() {
            Some(next) => after_seq = next,
            None => break,
        }
    }
    Ok(entries)
}
