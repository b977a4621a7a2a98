//! The engine on an in-memory store in virtual time: what each part of it promises, one flow a test.

#[path = "../support/mod.rs"]
mod support;

mod commands;
mod finding;
mod leases;
mod limits;
mod recurring;
mod retention;
mod retrying;
mod running;
mod stopping;
mod webhooks;
