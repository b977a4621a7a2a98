//! Writes tasks with their trails as JSON lines, one file a day, synced before anything is deleted.

use crate::job::{rfc3339, trace_id_of};
use crate::shared::Core;
use duebook_core::{Task, TaskId, TrailEntry};
use duebook_store::StoreError;
use serde_json::json;
use std::io::Write as _;
use std::sync::Arc;

const TRAIL_ENTRIES_MAX: usize = 10_000;

/// Exports these tasks.
///
/// # Errors
/// When they cannot be read or written; then nothing may be deleted.
pub(crate) async fn export(core: &Arc<Core>, ids: &[TaskId]) -> Result<(), StoreError> {
    let Some(folder) = core.config.retention.export_dir.clone() else { return Ok(()) };
    let mut lines = Vec::new();
    for id in ids {
        let Some(task) = core.store.task(*id).await? else { continue };
        let trail = core.store.trail(*id, 0, TRAIL_ENTRIES_MAX).await?;
        let queue = core.queue_by_id(task.queue).map(|queue| queue.name.to_string());
        lines.extend(line(&task, queue.as_deref(), &trail).to_string().into_bytes());
        lines.push(b'\n');
    }
    let day = core.now_ms().div_euclid(86_400_000) * 86_400_000;
    let name = jiff::Timestamp::from_millisecond(day)
        .map_or_else(|_| day.to_string(), |at| at.strftime("%Y-%m-%d").to_string());
    let written = write(&folder.join(format!("tasks-{name}.jsonl")), &lines);
    written.map_err(|error| StoreError::Backend(format!("export to {}: {error}", folder.display())))
}

fn write(path: &std::path::Path, lines: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(lines)?;
    file.sync_all()
}

fn time(ms: Option<i64>) -> Option<String> {
    ms.and_then(rfc3339)
}

fn line(task: &Task, queue: Option<&str>, trail: &[TrailEntry]) -> serde_json::Value {
    let payload: serde_json::Value = task
        .payload
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(serde_json::Value::Null);
    let entries: Vec<_> = trail
        .iter()
        .map(|entry| {
            json!({
                "seq": entry.seq,
                "at": time(Some(entry.at_ms)),
                "from": entry.step.from.map(duebook_core::State::as_str),
                "to": entry.step.to.as_str(),
                "reason": entry.step.reason.as_str(),
                "attempt": entry.attempt,
                "due_at": time(Some(entry.due_ms)),
                "started_at": time(entry.started_ms),
                "actor": entry.actor,
                "detail": entry.detail,
                "trace_id": entry.trace_id,
            })
        })
        .collect();
    json!({
        "id": task.id,
        "queue": queue,
        "key": task.key,
        "state": task.head.state.as_str(),
        "due_at": time(Some(task.head.due_ms)),
        "attempt": task.head.attempt,
        "created_at": time(Some(task.created_ms)),
        "committed_at": time(Some(task.committed_ms)),
        "fired_at": time(task.head.fired_ms),
        "started_at": time(task.head.started_ms),
        "finished_at": time(task.head.finished_ms),
        "last_error": task.last_error,
        "trace_id": trace_id_of(task),
        "payload": payload,
        "trail": entries,
    })
}
