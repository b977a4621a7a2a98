//! What of the server can be set. Every limit has its unit in its name.

use duebook_core::limits::BODY_BYTES_MAX;
use std::net::{Ipv4Addr, SocketAddr};

/// The server's settings.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Most open connections; more are answered 429 and closed.
    pub connections_max: usize,
    /// Most requests that are worked on at once, long polls not counted; more are answered 429.
    pub in_flight_max: usize,
    /// Most bytes of a request body.
    pub body_bytes_max: usize,
    /// Most bytes of all request bodies in memory at once; more are answered 429.
    pub bodies_bytes_max: usize,
    /// How long a request may take, long polls not counted, in milliseconds.
    pub request_timeout_ms: u64,
    /// How long a client may take to send a body, in milliseconds.
    pub body_timeout_ms: u64,
    /// How long a client may take to send a request's head, which is also how long a connection may idle, in
    /// milliseconds.
    pub idle_timeout_ms: u64,
    /// How long running handlers may finish when the server stops, in milliseconds.
    pub grace_ms: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7700)),
            connections_max: 10_000,
            in_flight_max: 10_000,
            body_bytes_max: BODY_BYTES_MAX,
            bodies_bytes_max: 256 * 1024 * 1024,
            request_timeout_ms: 30_000,
            body_timeout_ms: 20_000,
            idle_timeout_ms: 75_000,
            grace_ms: 10_000,
        }
    }
}
