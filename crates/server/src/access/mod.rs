//! Who may do what: API keys, scopes, queues; and who did it, for the trail.
//!
//! On a loopback address and as long as the store has no key at all (not even a revoked one), everything is
//! open to programs on the machine, but not to web pages of other sites that a browser on it shows.

mod caller;
pub mod keys;

pub(crate) use caller::{Admin, Caller, Produce, Read, Work};

use crate::code::Code;
use crate::problem::Problem;
use duebook_core::limits::{ACTOR_BYTES_MAX, cut};
use duebook_store::KeyRow;
use http::{HeaderMap, HeaderValue, header};
use keys::{Scopes, hash_of, same_hash};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// A key that opens something.
#[derive(Debug)]
struct Known {
    hash: String,
    actor: Arc<str>,
    scopes: Scopes,
    queues: Option<Arc<[String]>>,
}

#[derive(Debug, Default)]
struct Ring {
    by_id: HashMap<String, Known>,
    /// Whether the store has any key, revoked ones included.
    any: bool,
}

/// The keys in memory, and whether they are needed.
#[derive(Debug)]
pub(crate) struct Access {
    loopback: bool,
    ring: RwLock<Arc<Ring>>,
    anonymous: Arc<str>,
}

/// What a request may do.
#[derive(Debug, Clone)]
struct Grant {
    actor: Arc<str>,
    scopes: Scopes,
    queues: Option<Arc<[String]>>,
}

impl Access {
    pub(crate) fn new(loopback: bool, rows: &[KeyRow]) -> Self {
        let access = Self { loopback, ring: RwLock::default(), anonymous: Arc::from("api") };
        access.refresh(rows);
        access
    }

    /// Takes the keys as the store has them now.
    pub(crate) fn refresh(&self, rows: &[KeyRow]) {
        let by_id = rows
            .iter()
            .filter(|row| row.revoked_ms.is_none())
            .map(|row| {
                let queues: Vec<String> =
                    row.queues.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
                let known = Known {
                    hash: row.hash.clone(),
                    actor: Arc::from(cut(&format!("key:{}", row.name), ACTOR_BYTES_MAX)),
                    scopes: Scopes::read(&row.scopes),
                    queues: (!queues.is_empty()).then(|| Arc::from(queues)),
                };
                (row.id.clone(), known)
            })
            .collect();
        let ring = Ring { by_id, any: !rows.is_empty() };
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ring);
    }

    /// Keys that open something.
    pub(crate) fn active(&self) -> usize {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).by_id.len()
    }

    fn grant(&self, headers: &HeaderMap) -> Result<Grant, Problem> {
        let ring = Arc::clone(&self.ring.read().unwrap_or_else(PoisonError::into_inner));
        if self.loopback && !ring.any {
            check_same_site(headers)?;
            return Ok(Grant { actor: Arc::clone(&self.anonymous), scopes: Scopes::ALL, queues: None });
        }
        let refused = |why| Problem::new(Code::Unauthorized, why);
        let header = headers.get(header::AUTHORIZATION).ok_or_else(|| refused("no key was sent"))?;
        let key =
            bearer(header).ok_or_else(|| refused("the key must be sent as `Authorization: Bearer dbk_…`"))?;
        let hash = hash_of(key);
        let known = keys::id_of(key).and_then(|id| ring.by_id.get(id));
        // The comparison takes the same time whether or not there is such a key.
        let same = same_hash(&hash, known.map_or("", |known| known.hash.as_str()));
        match known {
            Some(known) if same => Ok(Grant {
                actor: Arc::clone(&known.actor),
                scopes: known.scopes,
                queues: known.queues.clone(),
            }),
            _ => Err(refused("the key is unknown or revoked")),
        }
    }
}

fn bearer(header: &HeaderValue) -> Option<&str> {
    let (scheme, key) = header.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}

/// An open server answers programs. A browser says for whom it asks: pages of other sites are turned away, and
/// so are names that were made to point at this machine.
fn check_same_site(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let Some(host) = text(header::HOST) else { return Ok(()) };
    if !is_loopback_name(host) {
        let why =
            format!("without keys, only requests to the loopback address are answered, not to {host:?}");
        return Err(Problem::new(Code::Forbidden, why));
    }
    match text(header::ORIGIN) {
        Some(origin) if origin.split_once("://").is_none_or(|(_, at)| at != host) => {
            Err(Problem::new(Code::Forbidden, format!("without keys, pages of {origin:?} are not answered")))
        }
        _ => Ok(()),
    }
}

fn is_loopback_name(host: &str) -> bool {
    let name = if host.starts_with('[') {
        host.split_inclusive(']').next().unwrap_or(host)
    } else {
        host.split(':').next().unwrap_or(host)
    };
    name == "[::1]"
        || name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn an_open_server_answers_this_machine_only() {
        let cases = [
            (vec![(header::HOST, "127.0.0.1:7700")], true),
            (vec![(header::HOST, "localhost:7700")], true),
            (vec![(header::HOST, "[::1]:7700")], true),
            (vec![], true),
            (vec![(header::HOST, "evil.example:7700")], false),
            (vec![(header::HOST, "127.0.0.1.evil.example")], false),
            (vec![(header::HOST, "localhost:7700"), (header::ORIGIN, "http://localhost:7700")], true),
            (vec![(header::HOST, "localhost:7700"), (header::ORIGIN, "https://evil.example")], false),
            (vec![(header::HOST, "localhost:7700"), (header::ORIGIN, "null")], false),
        ];
        for (pairs, allowed) in cases {
            assert_eq!(check_same_site(&headers(&pairs)).is_ok(), allowed, "{pairs:?}");
        }
    }

    #[test]
    fn keys_open_what_they_say_until_they_are_revoked() {
        let (row, key) = keys::make("shop", Scopes::read("produce"), &["orders".into()], 1).unwrap();
        let access = Access::new(true, std::slice::from_ref(&row));
        let ask = |key: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
            access.grant(&headers)
        };
        assert_eq!(access.grant(&HeaderMap::new()).unwrap_err().code, Code::Unauthorized);
        assert_eq!(&*ask(&key).unwrap().actor, "key:shop");
        assert_eq!(ask(&format!("{key}x")).unwrap_err().code, Code::Unauthorized);
        assert_eq!(ask("dbk_").unwrap_err().code, Code::Unauthorized);
        access.refresh(&[KeyRow { revoked_ms: Some(2), ..row }]);
        assert_eq!(ask(&key).unwrap_err().code, Code::Unauthorized);
        assert_eq!(access.grant(&HeaderMap::new()).unwrap_err().code, Code::Unauthorized, "still not open");
    }
}
