//! API keys: `dbk_ID_SECRET`. The id is public, the secret is shown once; the store keeps a SHA-256 of the
//! whole key, which is enough because the secret is 200 random bits and no word that can be guessed.

use duebook_core::limits::is_name;
use duebook_store::KeyRow;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::fmt::Write as _;

/// What every key starts with.
pub const KEY_PREFIX: &str = "dbk_";
/// Keys in one store, revoked ones included.
pub const KEYS_MAX: usize = 1_000;
/// Bytes of a key's name.
pub const KEY_NAME_BYTES_MAX: usize = 100;
/// Queues that one key can be limited to.
pub const KEY_QUEUES_MAX: usize = 100;

const ID_CHARS: usize = 8;
const SECRET_CHARS: usize = 40;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// What a key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Schedule tasks and change their course.
    Produce,
    /// Lease and settle tasks.
    Work,
    /// Look at everything but keys.
    Read,
    /// Everything.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 4] = [Self::Produce, Self::Work, Self::Read, Self::Admin];

    /// As requests, answers and stores write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Work => "work",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }

    /// The scope of this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Every scope.
    pub const ALL: Self = Self(0b1111);

    /// From the store's text; what is unknown opens nothing.
    #[must_use]
    pub fn read(text: &str) -> Self {
        text.split(',').filter_map(|word| Scope::parse(word.trim())).collect()
    }

    /// Whether it allows what `scope` is for. `admin` allows everything.
    #[must_use]
    pub const fn allow(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8 | 1 << Scope::Admin as u8) != 0
    }

    /// Whether it allows nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes one by one.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & (1 << *scope as u8) != 0)
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |set, scope| set | 1 << scope as u8))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Scope::as_str).collect();
        f.write_str(&names.join(","))
    }
}

/// Why a key cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// The name is empty, too long, or has control characters.
    #[error("name: must be 1 to {KEY_NAME_BYTES_MAX} bytes without control characters")]
    Name,
    /// No scope was given.
    #[error("scopes: must name at least one of produce, work, read, admin")]
    Scopes,
    /// A queue's name cannot be one, or there are too many.
    #[error("queues: must be at most {KEY_QUEUES_MAX} names of queues")]
    Queues,
    /// The system gave no random bits.
    #[error("the system gives no random numbers")]
    Random,
}

/// Makes a key: the row to keep, and the key itself, which exists nowhere else.
///
/// # Errors
/// What is wrong with its settings.
pub fn make(name: &str, scopes: Scopes, queues: &[String], now_ms: i64) -> Result<(KeyRow, String), BadKey> {
    if name.is_empty() || name.len() > KEY_NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(BadKey::Name);
    }
    if scopes.is_empty() {
        return Err(BadKey::Scopes);
    }
    if queues.len() > KEY_QUEUES_MAX || !queues.iter().all(|queue| is_name(queue)) {
        return Err(BadKey::Queues);
    }
    let id = random_text(ID_CHARS)?;
    let key = format!("{KEY_PREFIX}{id}_{}", random_text(SECRET_CHARS)?);
    let row = KeyRow {
        hash: hash_of(&key),
        id,
        name: name.to_owned(),
        scopes: scopes.to_string(),
        queues: queues.join(","),
        created_ms: now_ms,
        revoked_ms: None,
    };
    Ok((row, key))
}

fn random_text(chars: usize) -> Result<String, BadKey> {
    let mut bytes = vec![0_u8; chars];
    getrandom::fill(&mut bytes).map_err(|_| BadKey::Random)?;
    Ok(bytes.into_iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect())
}

/// The public part of a key.
pub(super) fn id_of(key: &str) -> Option<&str> {
    key.strip_prefix(KEY_PREFIX)?.split_once('_').map(|(id, _)| id)
}

/// SHA-256 of a key in hexadecimal.
pub(super) fn hash_of(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Compares in a time that does not depend on where they differ.
pub(super) fn same_hash(one: &str, other: &str) -> bool {
    let mut differ = one.len() ^ other.len();
    for (at, byte) in one.bytes().enumerate() {
        differ |= usize::from(byte ^ other.as_bytes().get(at).copied().unwrap_or(0));
    }
    std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_hashed_and_found_again() {
        let (row, key) = make("shop", Scopes::read("produce,work"), &[], 7).unwrap();
        assert_eq!(id_of(&key), Some(row.id.as_str()));
        assert_eq!(hash_of(&key), row.hash);
        assert!(same_hash(&row.hash, &hash_of(&key)) && !same_hash(&row.hash, "") && !same_hash("", "0"));
        assert_eq!(row.scopes, "produce,work");
        assert!(!row.hash.contains(&key[13..]));
    }

    #[test]
    fn what_cannot_be_a_key_is_said() {
        let produce = Scopes::read("produce");
        assert_eq!(make("", produce, &[], 0).unwrap_err(), BadKey::Name);
        assert_eq!(make("x", Scopes::read("write"), &[], 0).unwrap_err(), BadKey::Scopes);
        assert_eq!(make("x", produce, &["a,b".into()], 0).unwrap_err(), BadKey::Queues);
    }

    #[test]
    fn admin_allows_everything_and_others_themselves() {
        for scope in Scope::ALL {
            assert!(Scopes::read("admin").allow(scope));
            for other in Scope::ALL {
                let alone = Scopes::read(scope.as_str());
                assert_eq!(alone.allow(other), scope == other || scope == Scope::Admin);
            }
        }
    }
}
