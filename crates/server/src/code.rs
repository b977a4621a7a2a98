//! The closed list of error codes. `docs/errors.md` and the page `/errors` are made of it.

use std::fmt::Write as _;

macro_rules! codes {
    ($($variant:ident $code:literal $status:literal $title:literal $doc:literal;)*) => {
        /// Why a request, or one item of it, was refused. The codes are stable: programs may rely on them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $doc] $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As answers write it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// The HTTP status that goes with it.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// What it says in a few words.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// What it means and what to do about it.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }

            /// What `type` says in a problem document: where the code is explained.
            #[must_use]
            pub const fn type_uri(self) -> &'static str {
                match self { $(Self::$variant => concat!("/errors#", $code),)* }
            }
        }
    };
}

codes! {
    BadJson "bad_json" 400 "The body is not JSON"
        "The request's body cannot be read as JSON; the detail says where it breaks off. Send one JSON object in UTF-8.";
    Unreadable "unreadable" 400 "The request cannot be read"
        "The path or the body broke off or has a wrong encoding. Percent-encode keys in paths as UTF-8, and send the body whole.";
    Unauthorized "unauthorized" 401 "A key is needed"
        "There is no key in the request, or it is unknown or revoked. Send `Authorization: Bearer dbk_…`; `duebook keys create` makes a key.";
    Forbidden "forbidden" 403 "The key does not allow this"
        "The key lacks the scope, or is limited to other queues; the detail says which. On an open server: the request came from a web page of another site.";
    NotFound "not_found" 404 "There is no such thing"
        "There is no task, queue, schedule or key of this name. Ended tasks are deleted after the retention time.";
    UnknownRoute "unknown_route" 404 "There is no such path"
        "Nothing answers at this path. `/openapi.json` lists all paths.";
    MethodNotAllowed "method_not_allowed" 405 "The path does not take this method"
        "The path exists, but not with this method. `/openapi.json` lists the methods.";
    RequestTimeout "request_timeout" 408 "The body came too slowly"
        "The body was not complete in time. Send it faster, or in smaller batches.";
    IllegalTransition "illegal_transition" 409 "The task's state does not allow this"
        "The task is in a state from which this step does not lead; the detail says in which. Read the task before trying again.";
    KeyTaken "key_taken" 409 "Another live task has this key"
        "The queue has a live task with this key, whose id the detail gives; answered to `on_conflict: reject`, and when a dead task is retried whose key a newer task has.";
    NotPulled "not_pulled" 409 "The queue's tasks cannot be leased"
        "The queue's handler is a webhook or in-process. Only queues whose handler is `lease` are pulled.";
    LeaseLost "lease_lost" 409 "The lease has passed on"
        "The lease token is not the current one: the lease ran out, or the task was settled already. The work may run again elsewhere; drop its result.";
    BodyTooLarge "body_too_large" 413 "The body is too large"
        "The body is longer than the server takes (8 MiB unless configured). Send smaller batches.";
    PayloadTooLarge "payload_too_large" 413 "The payload is too large"
        "A task's payload may have 64 KiB of JSON. Keep the data elsewhere and schedule a reference to it.";
    UnsupportedMediaType "unsupported_media_type" 415 "The body is not sent as JSON"
        "The content type is not `application/json`. Name it, or leave the header out.";
    UnknownField "unknown_field" 422 "There is no such field"
        "The request has a field that is not known, most often a slip of the pen; the pointer says which.";
    MissingField "missing_field" 422 "A field is missing"
        "The request lacks a field that is needed; the pointer says which.";
    BadField "bad_field" 422 "A field has a wrong value"
        "A field has a wrong type or is out of its bounds; the pointer says which and the detail what it must be.";
    BadQuery "bad_query" 422 "A query parameter is wrong"
        "A query parameter is unknown or has a wrong value; the detail says which. Cursors are taken as they were answered, for the same filter.";
    TooMany "too_many" 422 "There are too many of them"
        "A limit on how many queues, schedules or keys there may be is reached. Delete some, or use fewer.";
    Busy "busy" 429 "The server has too much to do"
        "Too many requests, bytes or writes wait at this moment; nothing was done. Wait as `Retry-After` says and try again.";
    Internal "internal" 500 "The server made a mistake"
        "A bug: the server's log says more. The request may or may not have been carried out.";
    StoreFull "store_full" 503 "The store has no room"
        "The disk, or the size that the store may have, is used up. Nothing was written; reads go on, and writes work again once there is room.";
    StoreCorrupt "store_corrupt" 503 "The store is damaged"
        "The database file is damaged. Stop the server, restore a backup, and look for a failing disk.";
    StoreFailed "store_failed" 503 "The store failed"
        "The store could not do its work; the detail says what it said. Writes were not carried out. Try again later.";
    Stopping "stopping" 503 "The server is stopping"
        "The server shuts down. Nothing was done; try again at the next server, or a little later.";
    TimedOut "timed_out" 503 "The answer took too long"
        "The request was not answered in time. It may still be carried out: schedule again with the same key to find out.";
    NotReady "not_ready" 503 "The server is not ready"
        "`/readyz` says that the store cannot be reached, its schema is another one, or the server is stopping.";
}

impl Code {
    /// `docs/errors.md`, whole.
    #[must_use]
    pub fn markdown() -> String {
        let mut page = String::from(
            "# Errors\n\nEvery refusal is a problem document (`application/problem+json`, RFC 9457): `{type, title, status, \
             code, detail, pointer?}`.\n`code` is one of these, and stable; `pointer` is the JSON pointer of the field at \
             fault. Items of a batch, of a settle\nor of an extend carry the same codes.\n\nThis page is made of \
             `crates/server/src/code.rs`: run the tests of `duebook-server` with `DUEBOOK_BLESS=1`\nto write it anew.\n",
        );
        for code in Self::ALL {
            let (name, status, title, doc) = (code.as_str(), code.status(), code.title(), code.doc());
            // Writing to a String cannot fail.
            let _ = write!(page, "\n## {name}\n\n{status} — {title}.\n\n{doc}\n");
        }
        page
    }

    /// The page `/errors`.
    pub(crate) fn html() -> String {
        let mut page =
            String::from("<!doctype html><meta charset=utf-8><title>Duebook: errors</title><h1>Errors</h1>");
        for code in Self::ALL {
            let (name, status, title, doc) = (code.as_str(), code.status(), code.title(), code.doc());
            let _ = writeln!(page, "<h2 id=\"{name}\">{name}</h2><p>{status} — {title}.<p>{doc}");
        }
        page
    }
}
