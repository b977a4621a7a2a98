//! The order book, and the rule.
//!
//! **An order is late if it had been neither delivered nor cancelled by its promised date**: the earlier of the two
//! events came after the promise, or neither came at all and the promise has passed when the recording ends.
//! An order cancelled in time and delivered all the same is not late; one delivered at the promised millisecond is not late.

use crate::recording::{Event, Happening};
use duebook_client::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Orders delivered so shortly before or after the promise may fall either way, in milliseconds: 3 hours.
pub(crate) const BORDER_MS: i64 = 3 * 3_600_000;

/// What is recorded of an order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Order {
    pub(crate) promised: Timestamp,
    pub(crate) delivered: Option<Timestamp>,
    pub(crate) cancelled: Option<Timestamp>,
}

impl Order {
    /// When it was first delivered or cancelled.
    pub(crate) fn closed(&self) -> Option<Timestamp> {
        self.delivered.into_iter().chain(self.cancelled).min()
    }

    /// Whether it was still open after its promised date. Compares event times, so the answer does not depend on when
    /// the question is asked.
    pub(crate) fn is_late(&self) -> bool {
        self.closed().is_none_or(|closed| closed > self.promised)
    }

    fn is_borderline(&self) -> bool {
        self.delivered.is_some_and(|at| at.ms_since(self.promised).abs() <= BORDER_MS)
    }
}

/// Every order of a recording.
#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) orders: BTreeMap<Arc<str>, Order>,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

impl Book {
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut orders: BTreeMap<Arc<str>, Order> = BTreeMap::new();
        for event in events {
            let order = orders.entry(Arc::clone(&event.order)).or_default();
            match event.happening {
                Happening::Created { promised } => order.promised = promised,
                // Sorted by time: the first one counts.
                Happening::Delivered => order.delivered = order.delivered.or(Some(event.time)),
                Happening::Cancelled => order.cancelled = order.cancelled.or(Some(event.time)),
                Happening::Other => {}
            }
        }
        let time = |event: Option<&Event>| event.map_or_else(Timestamp::default, |event| event.time);
        Self { orders, first: time(events.first()), last: time(events.last()) }
    }

    pub(crate) fn is_late(&self, order: &str) -> bool {
        self.orders.get(order).is_some_and(Order::is_late)
    }

    /// Whether the order's check belongs into the recording's time.
    pub(crate) fn is_checked(&self, order: &Order) -> bool {
        order.promised <= self.last
    }

    fn those(&self, which: impl Fn(&Order) -> bool) -> BTreeSet<Arc<str>> {
        self.orders.iter().filter(|(_, order)| which(order)).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Those that have to be reported.
    pub(crate) fn late(&self) -> BTreeSet<Arc<str>> {
        self.those(|order| order.is_late() && self.is_checked(order))
    }

    /// Those that may fall either way.
    pub(crate) fn borderline(&self) -> BTreeSet<Arc<str>> {
        self.those(Order::is_borderline)
    }
}
