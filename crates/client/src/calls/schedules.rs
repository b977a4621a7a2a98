//! Recurring schedules.

use crate::model::{Listing, Schedule, ScheduleSpec};
use crate::{Client, Result};

impl Client {
    /// Every recurring schedule.
    ///
    /// # Errors
    /// Those of every call.
    pub async fn schedules(&self) -> Result<Vec<Schedule>> {
        self.ask::<Listing<Schedule>>(self.get(&["v1", "schedules"])?).await.map(Listing::into_items)
    }

    /// One recurring schedule.
    ///
    /// # Errors
    /// 404 if there is none, and those of every call.
    pub async fn get_schedule(&self, name: &str) -> Result<Schedule> {
        self.ask(self.get(&["v1", "schedules", name])?).await
    }

    /// Makes or replaces a recurring schedule; the answer has its next five times.
    ///
    /// # Errors
    /// 422 for a bad expression or zone, and those of every call.
    pub async fn put_schedule(&self, name: &str, spec: &ScheduleSpec) -> Result<Schedule> {
        self.ask(self.put(&["v1", "schedules", name])?.body(spec)?).await
    }

    /// Removes a recurring schedule. Tasks that it has made stay.
    ///
    /// # Errors
    /// 404 if there is none (also when a repetition finds it gone), and those of every call.
    pub async fn delete_schedule(&self, name: &str) -> Result<()> {
        self.done(self.delete(&["v1", "schedules", name])?).await
    }
}
