//! Two lanes, high and normal, served by weight: high first, normal never starved.

use duebook_core::Priority;
use duebook_core::pool::LanePicker;
use std::collections::VecDeque;

/// What waits in two lanes.
pub(crate) struct Lanes<T> {
    picker: LanePicker,
    high: VecDeque<T>,
    normal: VecDeque<T>,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { picker: LanePicker::default(), high: VecDeque::new(), normal: VecDeque::new() }
    }
}

impl<T> Lanes<T> {
    fn lane(&mut self, priority: Priority) -> &mut VecDeque<T> {
        match priority {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
        }
    }

    pub(crate) fn push(&mut self, priority: Priority, item: T) {
        self.lane(priority).push_back(item);
    }

    /// Puts an item back where it came from: it is the next of its lane.
    pub(crate) fn put_back(&mut self, priority: Priority, item: T) {
        self.lane(priority).push_front(item);
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let priority = self.picker.pick(!self.high.is_empty(), !self.normal.is_empty())?;
        self.lane(priority).pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.high.len() + self.normal.len()
    }

    /// The first of each lane.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = &T> {
        self.high.front().into_iter().chain(self.normal.front())
    }

    /// Empties both lanes.
    pub(crate) fn clear(&mut self) {
        self.high.clear();
        self.normal.clear();
    }
}
