//! Standard Webhooks, symmetric scheme `v1` (<https://www.standardwebhooks.com>, specification 1.0.0):
//! HMAC-SHA256 over `{id}.{timestamp}.{body}`, keyed with a shared secret.
//!
//! The three parts travel as the headers `webhook-id`, `webhook-timestamp` (epoch seconds) and
//! `webhook-signature`, the last a list with one signature per secret while secrets are being rotated.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD};
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::fmt;

/// What the text of a secret starts with.
pub const SECRET_PREFIX: &str = "whsec_";
/// Fewest bytes of a secret: 192 bits.
pub const SECRET_BYTES_MIN: usize = 24;
/// Most bytes of a secret: 512 bits.
pub const SECRET_BYTES_MAX: usize = 64;
/// Signatures of one header that are looked at; a list is as long as secrets are in rotation.
pub const SIGNATURES_MAX: usize = 16;
/// How far a timestamp may be off, in seconds, when nothing else is configured: that of the reference libraries.
pub const TOLERANCE_S: u64 = 300;

const VERSION_PREFIX: &str = "v1,";

/// Secrets are typed and pasted by people, so their padding may be missing.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A text that is no webhook secret. Says nothing of the text itself, so it can be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// The prefix is missing.
    #[error("must start with whsec_")]
    Prefix,
    /// What follows the prefix is no base 64.
    #[error("must be base 64 after whsec_")]
    Encoding,
    /// Too short or too long.
    #[error("must be 24 to 64 bytes in base 64, not {bytes}")]
    Length {
        /// How many bytes it is.
        bytes: usize,
    },
}

/// Why a signed request was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The id is empty or has a full stop, with which parts of the signed text could change places.
    #[error("the webhook id is empty or has a full stop")]
    BadId,
    /// Signed longer ago than the tolerance: perhaps a replay.
    #[error("the timestamp is too old")]
    TooOld,
    /// Signed further in the future than the tolerance: a clock is wrong.
    #[error("the timestamp is too far in the future")]
    TooNew,
    /// No signature of the list was made with this secret over this request.
    #[error("no signature matches")]
    NoMatch,
}

/// A secret shared by the two ends of a webhook.
#[derive(Clone)]
pub struct WebhookSecret {
    /// The hash with the key already worked in: saves its share for every request.
    keyed: Hmac<Sha256>,
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

impl WebhookSecret {
    /// Reads `whsec_` and 24 to 64 bytes in base 64 (standard alphabet, padding optional). The prefix is
    /// required, as the specification serialises secrets: it keeps a key of another scheme out.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        let encoded = text.strip_prefix(SECRET_PREFIX).ok_or(BadSecret::Prefix)?;
        let key = LENIENT.decode(encoded).map_err(|_| BadSecret::Encoding)?;
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&key.len()) {
            return Err(BadSecret::Length { bytes: key.len() });
        }
        // HMAC takes keys of any length; the error is there for other constructions.
        let keyed = Hmac::new_from_slice(&key).map_err(|_| BadSecret::Length { bytes: key.len() })?;
        Ok(Self { keyed })
    }

    fn mac(&self, id: &str, timestamp_s: i64, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.keyed.clone();
        mac.update(id.as_bytes());
        mac.update(format!(".{timestamp_s}.").as_bytes());
        mac.update(body);
        mac
    }

    /// The signature of one request: `v1,` and the hash in base 64. `id` must have no full stop (task ids have
    /// none); `timestamp_s` is when this attempt is made, in epoch seconds.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp_s: i64, body: &[u8]) -> String {
        let mut text = String::from(VERSION_PREFIX);
        STANDARD.encode_string(self.mac(id, timestamp_s, body).finalize().into_bytes(), &mut text);
        text
    }

    /// Whether one of the signatures in `signature_header` (separated by spaces; other schemes and what
    /// follows the first [`SIGNATURES_MAX`] are passed over) was made with this secret over this request, at
    /// most `tolerance_s` away from `now_s` (epoch seconds). Compares in constant time.
    ///
    /// # Errors
    /// Why the request must not be believed.
    pub fn verify(
        &self,
        id: &str,
        timestamp_s: i64,
        signature_header: &str,
        body: &[u8],
        now_s: i64,
        tolerance_s: u64,
    ) -> Result<(), VerifyError> {
        if id.is_empty() || id.contains('.') {
            return Err(VerifyError::BadId);
        }
        if timestamp_s < now_s.saturating_sub_unsigned(tolerance_s) {
            return Err(VerifyError::TooOld);
        }
        if timestamp_s > now_s.saturating_add_unsigned(tolerance_s) {
            return Err(VerifyError::TooNew);
        }
        let mac = self.mac(id, timestamp_s, body);
        signature_header
            .split(' ')
            .take(SIGNATURES_MAX)
            .filter_map(|signature| signature.strip_prefix(VERSION_PREFIX))
            .filter_map(|encoded| STANDARD.decode(encoded).ok())
            .any(|signature| mac.clone().verify_slice(&signature).is_ok())
            .then_some(())
            .ok_or(VerifyError::NoMatch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The vector of the reference libraries (standard-webhooks/standard-webhooks, "sign function works").
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const AT: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn secret() -> WebhookSecret {
        WebhookSecret::parse(SECRET).unwrap()
    }

    fn of_bytes(bytes: usize) -> String {
        format!("{SECRET_PREFIX}{}", STANDARD.encode(vec![0xa5; bytes]))
    }

    #[test]
    fn signs_the_published_example() {
        assert_eq!(secret().sign(ID, AT, BODY), SIGNATURE);
        assert_eq!(secret().verify(ID, AT, SIGNATURE, BODY, AT, 0), Ok(()));
    }

    #[test]
    fn secrets_are_checked() {
        let error = |text: &str| WebhookSecret::parse(text).err();
        for bytes in [24, 25, 32, 63, 64] {
            assert_eq!(error(&of_bytes(bytes)), None, "{bytes}");
            assert_eq!(error(of_bytes(bytes).trim_end_matches('=')), None, "{bytes} without padding");
        }
        for bytes in [0, 23, 65] {
            assert_eq!(error(&of_bytes(bytes)), Some(BadSecret::Length { bytes }));
        }
        assert_eq!(error(SECRET.trim_start_matches(SECRET_PREFIX)), Some(BadSecret::Prefix));
        assert_eq!(error(""), Some(BadSecret::Prefix));
        assert_eq!(error("whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), Some(BadSecret::Prefix));
        assert_eq!(error("whsec_MfKQ9r8GKYqr!wjUPD8ILPZIo2LaLaSw"), Some(BadSecret::Encoding));
        assert_eq!(error("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw "), Some(BadSecret::Encoding));
    }

    #[test]
    fn never_printed() {
        assert_eq!(format!("{:?}", secret()), "WebhookSecret(…)");
        assert!(!BadSecret::Encoding.to_string().contains("MfKQ"));
    }

    #[test]
    fn what_verifies_and_what_does_not() {
        use VerifyError::{BadId, NoMatch, TooNew, TooOld};
        let other = WebhookSecret::parse(&of_bytes(32)).unwrap().sign(ID, AT, BODY);
        let asymmetric = SIGNATURE.replace("v1,", "v1a,");
        let rotating = format!("{other} v1a,AAAA {SIGNATURE}");
        let too_many = format!("{}{SIGNATURE}", "v1,AAAA ".repeat(SIGNATURES_MAX));
        type Case<'a> = (&'a str, i64, &'a str, &'a [u8], i64, Result<(), VerifyError>);
        let cases: &[Case<'_>] = &[
            (ID, AT, SIGNATURE, BODY, AT, Ok(())),
            (ID, AT, SIGNATURE, BODY, AT + 300, Ok(())),
            (ID, AT, SIGNATURE, BODY, AT - 300, Ok(())),
            (ID, AT, SIGNATURE, BODY, AT + 301, Err(TooOld)),
            (ID, AT, SIGNATURE, BODY, AT - 301, Err(TooNew)),
            (ID, AT, SIGNATURE, BODY, i64::MAX, Err(TooOld)),
            (ID, AT, SIGNATURE, BODY, i64::MIN, Err(TooNew)),
            (ID, AT, &rotating, BODY, AT, Ok(())),
            (ID, AT, &other, BODY, AT, Err(NoMatch)),
            (ID, AT, &asymmetric, BODY, AT, Err(NoMatch)),
            (ID, AT, &too_many, BODY, AT, Err(NoMatch)),
            (ID, AT, "", BODY, AT, Err(NoMatch)),
            (ID, AT, "v1,", BODY, AT, Err(NoMatch)),
            (ID, AT, &SIGNATURE[..20], BODY, AT, Err(NoMatch)),
            (ID, AT, &SIGNATURE[3..], BODY, AT, Err(NoMatch)),
            (ID, AT, SIGNATURE, b"{}", AT, Err(NoMatch)),
            (ID, AT + 1, SIGNATURE, BODY, AT, Err(NoMatch)),
            ("msg_other", AT, SIGNATURE, BODY, AT, Err(NoMatch)),
            ("msg.1", AT, SIGNATURE, BODY, AT, Err(BadId)),
            ("", AT, SIGNATURE, BODY, AT, Err(BadId)),
        ];
        for (id, timestamp_s, header, body, now_s, expected) in cases {
            let got = secret().verify(id, *timestamp_s, header, body, *now_s, TOLERANCE_S);
            assert_eq!(got, *expected, "{id} {timestamp_s} {header} {now_s}");
        }
    }

    proptest! {
        #[test]
        fn what_is_signed_verifies_and_a_changed_bit_does_not(
            id in "[a-zA-Z0-9_]{1,40}", at: i64, mut body in prop::collection::vec(any::<u8>(), 1..200), bit: usize,
        ) {
            let signature = secret().sign(&id, at, &body);
            prop_assert_eq!(secret().verify(&id, at, &signature, &body, at, 0), Ok(()));
            let bit = bit % (body.len() * 8);
            body[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(secret().verify(&id, at, &signature, &body, at, 0), Err(VerifyError::NoMatch));
        }

        #[test]
        fn any_text_is_survived(text: String, header: String, id: String) {
            let _ = WebhookSecret::parse(&text);
            let _ = WebhookSecret::parse(&format!("{SECRET_PREFIX}{text}"));
            prop_assert!(secret().verify(&id, 0, &header, b"", 0, 0).is_err());
        }
    }
}
