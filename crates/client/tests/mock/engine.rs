//! The mock's tasks: pending until due, leased with a token, extended, settled, cancelled.

use super::Answer;
use duebook_client::{Clock, SystemClock, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Debug, Clone)]
pub struct MockTask {
    pub id: String,
    pub queue: String,
    pub key: String,
    pub state: &'static str,
    pub due_ms: i64,
    pub payload: Value,
    pub attempt: u32,
    pub token: u32,
    pub lease_until_ms: i64,
    pub extensions: u32,
    pub cancel_requested: bool,
    /// The last settlement, as it came.
    pub settled: Option<Value>,
}

#[derive(Default)]
pub struct Engine {
    tasks: Mutex<BTreeMap<String, MockTask>>,
    live: Mutex<BTreeMap<(String, String), String>>,
    changed: Notify,
    waiting: AtomicUsize,
}

/// A long poll under way; also ends with its connection.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn now_ms() -> i64 {
    SystemClock.now().as_ms()
}

fn view(task: &MockTask) -> Value {
    let at = |ms| Timestamp::from_ms(ms).to_string();
    json!({
        "id": task.id, "queue": task.queue, "key": task.key, "state": task.state, "due_at": at(task.due_ms),
        "payload": task.payload, "priority": "normal", "attempt": task.attempt, "retry": null,
        "created_at": at(0), "committed_at": at(0), "fired_at": null, "started_at": null, "finished_at": null,
        "cancel_requested": task.cancel_requested, "last_error": null, "trace_id": null, "a_later_field": [1],
    })
}

impl Engine {
    pub fn task(&self, key: &str) -> MockTask {
        self.tasks
            .lock()
            .unwrap()
            .values()
            .rfind(|task| task.key == key)
            .cloned()
            .unwrap_or_else(|| panic!("no task {key}"))
    }

    pub fn count(&self, state: &str) -> usize {
        self.tasks.lock().unwrap().values().filter(|task| task.state == state).count()
    }

    /// Lease calls under way.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Schedules tasks that are due now, without HTTP.
    pub fn fill(&self, queue: &str, keys: impl IntoIterator<Item = String>) {
        for key in keys {
            self.schedule(&json!({"queue": queue, "key": key, "delay_ms": 0, "payload": {"of": key}}));
        }
    }

    /// Every lease is void: its task runs again, its token is worth nothing.
    pub fn void_leases(&self) {
        self.each_running(|task| task.state = "pending");
    }

    pub fn request_cancel(&self, key: &str) {
        self.each_running(|task| task.cancel_requested |= task.key == key);
    }

    fn each_running(&self, mut change: impl FnMut(&mut MockTask)) {
        for task in self.tasks.lock().unwrap().values_mut().filter(|task| task.state == "running") {
            change(task);
        }
        self.changed.notify_waiters();
    }

    fn schedule(&self, body: &Value) -> (MockTask, bool) {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let name = (text("queue"), text("key"));
        let mut tasks = self.tasks.lock().unwrap();
        let mut live = self.live.lock().unwrap();
        if let Some(id) = live.get(&name)
            && let Some(task) = tasks.get(id).filter(|task| matches!(task.state, "pending" | "running"))
        {
            return (task.clone(), false);
        }
        let due_ms =
            body["due_at"].as_i64().unwrap_or_else(|| now_ms() + body["delay_ms"].as_i64().unwrap_or(0));
        let task = MockTask {
            id: format!("{:08}", tasks.len() + 1),
            queue: name.0.clone(),
            key: name.1.clone(),
            state: "pending",
            due_ms,
            payload: body["payload"].clone(),
            attempt: 0,
            token: 0,
            lease_until_ms: 0,
            extensions: 0,
            cancel_requested: false,
            settled: None,
        };
        live.insert(name, task.id.clone());
        tasks.insert(task.id.clone(), task.clone());
        drop((tasks, live));
        self.changed.notify_waiters();
        (task, true)
    }

    fn cancel(&self, queue: &str, key: &str) -> Answer {
        let id = self.live.lock().unwrap().get(&(queue.to_owned(), key.to_owned())).cloned();
        let mut tasks = self.tasks.lock().unwrap();
        match id.and_then(|id| tasks.get_mut(&id)) {
            Some(task) if task.state == "pending" => task.state = "cancelled",
            Some(task) if task.state == "running" => task.cancel_requested = true,
            _ => return Answer::problem(404, "not_found"),
        }
        let task = tasks.values().rfind(|task| task.key == key).map(view);
        Answer::json(200, task.unwrap_or_default())
    }

    fn take(&self, queue: &str, max: usize, lease_ms: i64) -> Vec<Value> {
        let now_ms = now_ms();
        let mut taken = Vec::new();
        for task in self.tasks.lock().unwrap().values_mut() {
            if task.state == "running" && task.lease_until_ms < now_ms {
                task.state = "pending";
            }
            if task.queue == queue && task.state == "pending" && task.due_ms <= now_ms && taken.len() < max {
                task.state = "running";
                task.attempt += 1;
                task.token += 1;
                task.lease_until_ms = now_ms + lease_ms;
                let mut leased = view(task);
                leased["lease_token"] = json!(format!("1.{}", task.token));
                leased["lease_until"] = json!(Timestamp::from_ms(task.lease_until_ms).to_string());
                taken.push(leased);
            }
        }
        taken
    }

    async fn lease(&self, queue: &str, body: &Value) -> Answer {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        let max = usize::try_from(body["max"].as_u64().unwrap_or(1)).unwrap_or(1);
        let until_ms = now_ms() + body["wait_ms"].as_i64().unwrap_or(0);
        loop {
            let taken = self.take(queue, max, body["lease_ms"].as_i64().unwrap_or(30_000));
            let left_ms = until_ms - now_ms();
            if !taken.is_empty() || left_ms <= 0 {
                return Answer::json(200, json!({ "tasks": taken }));
            }
            // Due times are looked at every few milliseconds: the mock has no wheel.
            let nap = Duration::from_millis(u64::try_from(left_ms.min(2)).unwrap_or(0));
            let _ = tokio::time::timeout(nap, self.changed.notified()).await;
        }
    }

    fn per_lease(&self, items: &Value, mut each: impl FnMut(&mut MockTask, &Value) -> Value) -> Answer {
        let mut tasks = self.tasks.lock().unwrap();
        let results: Vec<Value> = items
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| {
                let token = |task: &MockTask| item["lease_token"] == format!("1.{}", task.token);
                match tasks.get_mut(item["id"].as_str().unwrap_or_default()) {
                    Some(task) if task.state == "running" && token(task) => each(task, item),
                    _ => json!({"error": "lease_lost"}),
                }
            })
            .collect();
        Answer::json(200, json!({ "results": results }))
    }

    pub(super) async fn respond(&self, call: &str, body: Value) -> Answer {
        let path: Vec<&str> = call.split(['/', ' ', '?']).filter(|part| !part.is_empty()).collect();
        match path.as_slice() {
            ["POST", "v1", "tasks"] => {
                let (task, created) = self.schedule(&body);
                let mut answer = view(&task);
                answer["created"] = json!(created);
                Answer::json(if created { 201 } else { 200 }, answer)
            }
            ["POST", "v1", "tasks", "batch"] => {
                let tasks = body["tasks"].as_array().into_iter().flatten();
                let results: Vec<_> = tasks
                    .map(|task| {
                        let (task, created) = self.schedule(task);
                        json!({"id": task.id, "created": created})
                    })
                    .collect();
                Answer::json(200, json!({ "results": results }))
            }
            ["POST", "v1", "queues", queue, "keys", key, "cancel"] => self.cancel(queue, key),
            ["POST", "v1", "queues", queue, "lease"] => self.lease(queue, &body).await,
            ["POST", "v1", "leases", "extend"] => {
                let until_ms = now_ms() + body["lease_ms"].as_i64().unwrap_or(0);
                self.per_lease(&body["leases"], |task, _| {
                    task.lease_until_ms = until_ms;
                    task.extensions += 1;
                    json!({"ok": true, "cancel_requested": task.cancel_requested})
                })
            }
            ["POST", "v1", "leases", "settle"] => self.per_lease(&body["results"], |task, item| {
                task.settled = Some(item.clone());
                task.state = match item["outcome"].as_str() {
                    Some("done") => "succeeded",
                    Some("retry") => {
                        task.due_ms = now_ms() + item["delay_ms"].as_i64().unwrap_or(3_600_000);
                        "pending"
                    }
                    _ => "dead",
                };
                json!({"ok": true})
            }),
            ["GET", "v1", "tasks", filter] => {
                let key = filter.split('&').find_map(|part| part.strip_prefix("key=")).unwrap_or_default();
                let tasks = self.tasks.lock().unwrap();
                let items: Vec<_> = tasks.values().filter(|task| task.key == key).map(view).collect();
                Answer::json(200, json!({"items": items, "next_cursor": null}))
            }
            ["GET", "healthz" | "readyz"] => Answer::json(200, json!({"ok": true})),
            _ => Answer::problem(404, "not_found"),
        }
    }
}
