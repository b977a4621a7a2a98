//! The calls, by subject.

mod dead;
mod health;
mod leases;
mod pages;
mod queues;
mod schedules;
mod tasks;

pub use pages::Pages;
