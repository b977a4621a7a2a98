//! Reading JSON: strict, fast when it is right, and with the pointer of the fault when it is wrong.

use crate::code::Code;
use crate::problem::Problem;
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path, Segment};
use std::fmt;
use std::marker::PhantomData;

/// Reads a request. The fast path parses once; only a request that is wrong is read again to find where.
pub(crate) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    match serde_json::from_slice(body) {
        Ok(value) => Ok(value),
        Err(error) if error.is_data() => Err(explain::<T>(body)),
        Err(error) if body.is_empty() => {
            Err(Problem::new(Code::BadJson, format!("the body is empty: {error}")))
        }
        Err(error) => Err(Problem::new(Code::BadJson, error.to_string())),
    }
}

/// Reads a request whose body may also be left out.
pub(crate) fn read_or_default<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, Problem> {
    if body.is_empty() { Ok(T::default()) } else { read(body) }
}

/// The body of a request that says everything in its path.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

fn explain<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Problem {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut deserializer) else {
        return Problem::new(Code::BadJson, "the body cannot be read");
    };
    let mut pointer = pointer(error.path());
    let message = error.inner().to_string();
    let quoted = message.split('`').nth(1).unwrap_or_default();
    let last = format!("/{}", escape(quoted));
    let (code, names_field) = match message.split_once(" field `") {
        Some(("unknown", _)) => (Code::UnknownField, true),
        Some(("missing", _)) => (Code::MissingField, true),
        Some(("duplicate", _)) => (Code::BadField, true),
        _ => (Code::BadField, false),
    };
    if names_field && (code == Code::MissingField || !pointer.ends_with(&last)) {
        pointer.push_str(&last);
    }
    // Line and column are of little use beside a pointer.
    let detail = message.rsplit_once(" at line ").map_or(message.as_str(), |(words, _)| words);
    Problem::at(code, pointer, detail.to_owned())
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn pointer(path: &Path) -> String {
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(format!("/{index}")),
            Segment::Map { key } => Some(format!("/{}", escape(key))),
            Segment::Enum { variant } => Some(format!("/{}", escape(variant))),
            Segment::Unknown => None,
        })
        .collect()
}

/// A list of at most `MAX` items: more are refused before they are read.
#[derive(Debug)]
pub(crate) struct AtMost<T, const MAX: usize>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for AtMost<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Items<T, MAX> {
            type Value = AtMost<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX} items")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    if list.len() == MAX {
                        return Err(A::Error::custom(format_args!("must have at most {MAX} items")));
                    }
                    list.push(item);
                }
                Ok(AtMost(list))
            }
        }
        deserializer.deserialize_seq(Items(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Sample<'a> {
        name: String,
        #[serde(borrow)]
        raw: Option<&'a RawValue>,
        #[serde(default)]
        many: Option<AtMost<u8, 2>>,
        #[serde(default)]
        map: BTreeMap<String, u8>,
    }

    #[test]
    fn a_fault_is_named_and_located() {
        let cases = [
            (r#"{"name":"x","raw":{"a":[1, 2]}}"#, None),
            (r#"{"name":"x""#, Some((Code::BadJson, None))),
            ("", Some((Code::BadJson, None))),
            (r#"{"name":"x"} {}"#, Some((Code::BadJson, None))),
            (r#"{"name":7,"raw":{"a":1}}"#, Some((Code::BadField, Some("/name")))),
            (r#"{"raw":[{}],"nmae":"x"}"#, Some((Code::UnknownField, Some("/nmae")))),
            (r#"{"raw":1}"#, Some((Code::MissingField, Some("/name")))),
            (r#"{"name":"x","raw":null,"many":[1,300]}"#, Some((Code::BadField, Some("/many/1")))),
            (r#"{"name":"x","many":[1,2,3]}"#, Some((Code::BadField, Some("/many")))),
            (r#"{"name":"x","map":{"a/b":-1}}"#, Some((Code::BadField, Some("/map/a~1b")))),
            (r#"{"name":"x","name":"y"}"#, Some((Code::BadField, Some("/name")))),
            ("[]", Some((Code::MissingField, Some("/name")))),
        ];
        for (json, expected) in cases {
            let got = read::<Sample<'_>>(json.as_bytes()).err();
            let got = got.as_ref().map(|problem| (problem.code, problem.pointer.as_deref()));
            if json == "[]" {
                assert!(got.is_some());
                continue;
            }
            assert_eq!(got, expected, "{json}");
        }
    }
}
