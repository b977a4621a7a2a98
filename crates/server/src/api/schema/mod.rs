//! Bodies of requests and answers, as the OpenAPI document describes them. They are read and written by other
//! types, borrowed and checked; a test holds the two together.

#![allow(dead_code)]

mod leases;
mod queues;
mod system;
mod tasks;

pub(crate) use leases::*;
pub(crate) use queues::*;
pub(crate) use system::*;
pub(crate) use tasks::*;
