//! The server as its clients see it: a real one on a free port over a real store.

mod access;
mod disk;
mod errors;
mod leases;
mod limits;
mod node;
mod openapi;
mod queues;
mod schema;
mod stopping;
mod system;
mod tasks;
