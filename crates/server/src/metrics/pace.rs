//! A queue's pace over the last minute: starts per second and percentiles of the lateness.

use serde::Serialize;

const SLOTS: usize = 6;
const SLOT_MS: i64 = 10_000;
/// Four per octave of microseconds: a percentile is off by 9 % at most.
const BUCKETS: usize = 128;

/// A queue's pace, as answers write it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Pace {
    starts_per_second: f64,
    lateness_ms: Option<Lateness>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Lateness {
    p50: f64,
    p99: f64,
    max: f64,
}

#[derive(Debug, Clone)]
struct Slot {
    number: i64,
    starts: u64,
    max_us: i64,
    buckets: [u32; BUCKETS],
}

/// The last minute in slots.
#[derive(Debug, Default)]
pub(super) struct Window {
    slots: Vec<Slot>,
    since_ms: Option<i64>,
}

fn bucket(us: i64) -> usize {
    let octaves = (us.max(0) as f64 + 1.0).log2();
    ((octaves * 4.0) as usize).min(BUCKETS - 1)
}

fn middle_us(bucket: usize) -> f64 {
    2_f64.powf((bucket as f64 + 0.5) / 4.0) - 1.0
}

fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

impl Window {
    /// A handler started, so late.
    pub(super) fn note(&mut self, now_ms: i64, late_us: i64) {
        self.since_ms.get_or_insert(now_ms);
        let number = now_ms.div_euclid(SLOT_MS);
        let place = number.rem_euclid(SLOTS as i64) as usize;
        if self.slots.is_empty() {
            let empty = Slot { number: i64::MIN, starts: 0, max_us: 0, buckets: [0; BUCKETS] };
            self.slots = vec![empty; SLOTS];
        }
        let slot = &mut self.slots[place];
        if slot.number != number {
            *slot = Slot { number, starts: 0, max_us: 0, buckets: [0; BUCKETS] };
        }
        slot.starts += 1;
        slot.max_us = slot.max_us.max(late_us);
        slot.buckets[bucket(late_us)] += 1;
    }

    pub(super) fn pace(&self, now_ms: i64) -> Pace {
        let newest = now_ms.div_euclid(SLOT_MS);
        let oldest = newest - SLOTS as i64 + 1;
        let live = || self.slots.iter().filter(|slot| (oldest..=newest).contains(&slot.number));
        let starts: u64 = live().map(|slot| slot.starts).sum();
        let from_ms = self.since_ms.unwrap_or(now_ms).max(oldest * SLOT_MS);
        let seconds = ((now_ms - from_ms) as f64 / 1000.0).max(1.0);
        let percentile = |share: f64| {
            let mut left = (starts as f64 * share).ceil() as u64;
            for at in 0..BUCKETS {
                let here: u64 = live().map(|slot| u64::from(slot.buckets[at])).sum();
                if here >= left {
                    return round(middle_us(at) / 1000.0);
                }
                left -= here;
            }
            0.0
        };
        let max = round(live().map(|slot| slot.max_us).max().unwrap_or(0) as f64 / 1000.0);
        Pace {
            starts_per_second: round(starts as f64 / seconds),
            lateness_ms: (starts > 0).then(|| Lateness {
                p50: percentile(0.5).min(max),
                p99: percentile(0.99).min(max),
                max,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minute_is_summed_up_and_the_one_before_forgotten() {
        let mut window = Window::default();
        assert_eq!(window.pace(0), Pace { starts_per_second: 0.0, lateness_ms: None });
        for ms in 0..20_000 {
            window.note(ms, if ms % 50 == 0 { 10_000 } else { 1_000 });
        }
        let pace = window.pace(20_000);
        assert!((pace.starts_per_second - 1_000.0).abs() < 1.0, "{pace:?}");
        let lateness = pace.lateness_ms.unwrap();
        assert!((0.9..1.1).contains(&lateness.p50) && (9.0..11.0).contains(&lateness.p99), "{pace:?}");
        assert_eq!(window.pace(200_000).lateness_ms, None);
    }
}
