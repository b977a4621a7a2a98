//! A task's trail in words: what happened when, how late, and how long each stage took.

use serde_json::Value;

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value[name].as_str()
}

fn ms(value: &Value, name: &str) -> Option<i64> {
    let at: jiff::Timestamp = text(value, name)?.parse().ok()?;
    Some(at.as_millisecond())
}

/// A length of time as a person reads it.
pub(super) fn span(ms: i64) -> String {
    let size = ms.unsigned_abs();
    let sign = if ms < 0 { "-" } else { "" };
    match size {
        0..1_000 => format!("{sign}{size} ms"),
        1_000..60_000 => format!("{sign}{}.{:03} s", size / 1_000, size % 1_000),
        60_000..3_600_000 => format!("{sign}{} min {} s", size / 60_000, size / 1_000 % 60),
        3_600_000..86_400_000 => format!("{sign}{} h {} min", size / 3_600_000, size / 60_000 % 60),
        _ => format!("{sign}{} d {} h", size / 86_400_000, size / 3_600_000 % 24),
    }
}

fn late(by_ms: i64) -> String {
    match by_ms {
        0 => "on time".to_owned(),
        1.. => format!("{} late", span(by_ms)),
        _ => format!("{} ahead of its time", span(-by_ms)),
    }
}

/// The story, line by line.
pub(super) fn tell(task: &Value, trail: &[Value]) -> Vec<String> {
    let word = |name| text(task, name).unwrap_or("-");
    let mut lines = vec![
        format!("task {}  queue {}  key {}", word("id"), word("queue"), word("key")),
        format!(
            "{}, attempt {}, priority {}, retry {}, trace {}",
            word("state"),
            task["attempt"],
            word("priority"),
            word("retry"),
            word("trace_id")
        ),
        format!("due {}", word("due_at")),
    ];
    if !task["payload"].is_null() {
        lines.push(format!("payload {}", task["payload"]));
    }
    if let (Some(created), Some(committed)) = (ms(task, "created_at"), ms(task, "committed_at")) {
        lines.push(format!(
            "created {}, its transaction began {} later",
            word("created_at"),
            span(committed - created)
        ));
    }
    lines.push(String::new());
    let mut due_ms = None;
    let mut claimed_ms = None;
    let mut before_ms = None;
    for entry in trail {
        lines.push(line(entry, due_ms, claimed_ms, before_ms));
        if let Some(detail) = text(entry, "detail") {
            lines.extend(detail.lines().map(|words| format!("{:28}{words}", "")));
        }
        due_ms = ms(entry, "due_at");
        before_ms = ms(entry, "at");
        if text(entry, "reason") == Some("claimed") {
            claimed_ms = before_ms;
        }
    }
    if task["cancel_requested"] == true {
        lines.push("its worker is asked to stop".to_owned());
    }
    if task["state"] == "pending"
        && let Some(at) = text(task, "due_at")
    {
        lines.push(format!("waits until {at}"));
    }
    lines
}

fn line(entry: &Value, due_ms: Option<i64>, claimed_ms: Option<i64>, before_ms: Option<i64>) -> String {
    let word = |name| text(entry, name).unwrap_or("-");
    let at_ms = ms(entry, "at");
    let mut parts = Vec::new();
    match word("reason") {
        reason @ ("scheduled" | "replaced" | "rescheduled" | "run_now" | "revived" | "retry" | "released"
        | "lease_lost" | "interrupted")
            if word("to") == "pending" =>
        {
            let wait = ms(entry, "due_at").zip(at_ms).map(|(due, at)| span((due - at).max(0)));
            let again =
                if matches!(reason, "scheduled" | "replaced" | "rescheduled") { "due" } else { "due again" };
            parts.push(format!("{again} {} (in {})", word("due_at"), wait.unwrap_or_default()));
        }
        "claimed" => {
            parts.push(format!("attempt {}", entry["attempt"]));
            if let (Some(due), Some(at)) = (due_ms, at_ms) {
                parts.push(late(at - due));
            }
        }
        _ => {}
    }
    if let Some(started) = ms(entry, "started_at") {
        if let Some(due) = due_ms {
            parts.push(format!("started {}", late(started - due)));
        }
        if let Some(claimed) = claimed_ms {
            parts.push(format!("{} after its claim", span(started - claimed)));
        }
        if let Some(at) = at_ms {
            parts.push(format!("ran {}", span(at - started)));
        }
    }
    parts.push(format!("by {}", word("actor")));
    let step = match text(entry, "from") {
        Some(from) if from != word("to") => format!("{from} → {}", word("to")),
        _ => word("to").to_owned(),
    };
    let since =
        at_ms.zip(before_ms).map_or_else(String::new, |(at, before)| format!("+{}", span(at - before)));
    format!("{}  {since:>14}  {:<16} {step:<20} {}", word("at"), word("reason"), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn spans_are_readable() {
        let cases = [
            (0, "0 ms"),
            (999, "999 ms"),
            (-1_500, "-1.500 s"),
            (61_000, "1 min 1 s"),
            (7_260_000, "2 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ];
        for (ms, expected) in cases {
            assert_eq!(span(ms), expected);
        }
    }

    #[test]
    fn a_story_says_how_late_and_how_long() {
        let at = |ms: &str| format!("2026-12-01T00:00:{ms}Z");
        let task = json!({"id": "x", "queue": "q", "key": "k", "state": "succeeded", "attempt": 1, "priority": "normal",
            "due_at": at("01.000"), "created_at": at("00.000"), "committed_at": at("00.002"), "payload": {"a": 1}});
        let trail = [
            json!({"seq": 1, "at": at("00.002"), "to": "pending", "reason": "scheduled", "attempt": 0,
                "due_at": at("01.000"), "actor": "api"}),
            json!({"seq": 2, "at": at("00.950"), "from": "pending", "to": "running", "reason": "claimed", "attempt": 1,
                "due_at": at("01.000"), "actor": "engine"}),
            json!({"seq": 3, "at": at("01.020"), "from": "running", "to": "succeeded", "reason": "done", "attempt": 1,
                "due_at": at("01.000"), "started_at": at("01.001"), "actor": "w1", "detail": "fine"}),
        ];
        let story = tell(&task, &trail).join("\n");
        for words in [
            "50 ms ahead of its time",
            "started 1 ms late",
            "ran 19 ms",
            "by w1",
            "fine",
            "payload {\"a\":1}",
        ] {
            assert!(story.contains(words), "{words} in\n{story}");
        }
    }
}
