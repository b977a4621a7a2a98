//! The engine on an in-memory store in virtual time: what each part of it promises, one flow a test.

mod leases;
mod recurring;
mod running;
mod world;
