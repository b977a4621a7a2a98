//! `duebook keys`: on the data directory while no server runs, or through a running server.

use crate::exit::{Failure, Outcome};
use crate::output;
use crate::remote::{Answer, Remote, ServerArgs};
use crate::settings::Settings;
use anyhow::Context as _;
use clap::Subcommand;
use duebook_core::{Clock, SystemClock};
use duebook_server::Stamp;
use duebook_server::keys::{self, KEYS_MAX, Scope, Scopes};
use duebook_store::{KeyRow, Reader, SqliteStore, Unit, Write, Writer, Written};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;

/// `duebook keys`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a key and print it, once.
    Create {
        /// What it is for; the trail shows it.
        #[arg(long)]
        name: String,
        /// What it allows: produce, work, read, admin.
        #[arg(long, value_delimiter = ',', required = true, value_parser = scope)]
        scopes: Vec<Scope>,
        /// The only queues it is for [default: all].
        #[arg(long, value_delimiter = ',')]
        queues: Vec<String>,
        #[command(flatten)]
        at: Place,
    },
    /// List the keys, revoked ones included.
    List {
        #[command(flatten)]
        at: Place,
    },
    /// Revoke a key by its id, the part between `dbk_` and the next `_`.
    Revoke {
        /// The key's id.
        id: String,
        #[command(flatten)]
        at: Place,
    },
}

/// Where the keys are.
#[derive(Debug, clap::Args)]
struct Place {
    /// Through this running server instead of the data directory; needs a key with scope admin, if there are keys.
    #[arg(long, env = "DUEBOOK_SERVER", value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    remote: ServerArgs,
    #[command(flatten)]
    settings: Settings,
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::parse(text).ok_or_else(|| "must be produce, work, read or admin".to_owned())
}

pub(super) async fn run(args: Args) -> Outcome {
    match args.action {
        Action::Create { name, scopes, queues, at } => match at.open()? {
            Keys::Local(store) => create(&store, &name, &scopes, &queues).await,
            Keys::Remote(remote) => create_remote(&remote, &name, &scopes, &queues).await,
        },
        Action::List { at } => match at.open()? {
            Keys::Local(store) => list(&store).await,
            Keys::Remote(remote) => list_remote(&remote).await,
        },
        Action::Revoke { id, at } => match at.open()? {
            Keys::Local(store) => revoke(&store, &id).await,
            Keys::Remote(remote) => revoke_remote(&remote, &id).await,
        },
    }
}

enum Keys {
    Local(Box<SqliteStore>),
    Remote(Remote),
}

impl Place {
    fn open(self) -> Result<Keys, Failure> {
        if let Some(url) = &self.server {
            return Ok(Keys::Remote(Remote::new(url, self.remote)?));
        }
        let settings = self.settings.with_file()?;
        let store = SqliteStore::open(&settings.sqlite()?, Arc::new(SystemClock))
            .context("the keys cannot be reached (a running server's can with --server URL)")?;
        Ok(Keys::Local(Box::new(store)))
    }
}

async fn create(store: &SqliteStore, name: &str, scopes: &[Scope], queues: &[String]) -> Outcome {
    let scopes: Scopes = scopes.iter().copied().collect();
    let (row, key) = keys::make(name, scopes, queues, SystemClock.now_ms())
        .map_err(|bad| Failure::usage(format!("--{bad}")))?;
    let known = store.keys().await.context("the keys cannot be read")?;
    if known.len() >= KEYS_MAX {
        return Err(anyhow::anyhow!("there are {KEYS_MAX} keys already").into());
    }
    store.submit(Unit::one(Write::PutKey(row))).await.context("the key cannot be kept")?;
    store.close().await;
    tell_key(&key);
    Ok(())
}

fn tell_key(key: &str) {
    output::line(key);
    eprintln!("This is the only time that the key is shown. From now on, requests need a key.");
}

async fn list(store: &SqliteStore) -> Outcome {
    let rows = store.keys().await.context("the keys cannot be read")?;
    store.close().await;
    rows.iter().for_each(print_row);
    Ok(())
}

fn print_row(row: &KeyRow) {
    let state = row.revoked_ms.map_or("active".to_owned(), |ms| format!("revoked {}", Stamp(ms)));
    print(&row.id, &row.name, &row.scopes, &row.queues, &Stamp(row.created_ms).to_string(), &state);
}

fn print(id: &str, name: &str, scopes: &str, queues: &str, created: &str, state: &str) {
    let queues = if queues.is_empty() { "all queues" } else { queues };
    output::line(&format!("{id}  {name}  {scopes}  {queues}  made {created}  {state}"));
}

async fn revoke(store: &SqliteStore, id: &str) -> Outcome {
    let write = Write::RevokeKey { id: id.to_owned(), now_ms: SystemClock.now_ms() };
    let written = store.submit(Unit::one(write)).await.context("the key cannot be revoked")?;
    store.close().await;
    match written.first() {
        Some(Ok(Written::Count(1))) => {
            output::line(&format!("{id} is revoked"));
            Ok(())
        }
        _ => Err(no_key(id)),
    }
}

fn no_key(id: &str) -> Failure {
    anyhow::anyhow!("there is no active key with the id {id:?}").into()
}

async fn create_remote(remote: &Remote, name: &str, scopes: &[Scope], queues: &[String]) -> Outcome {
    let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
    let body = json!({ "name": name, "scopes": scopes, "queues": queues });
    match remote.send(Method::POST, &["v1", "keys"], &[], Some(&body)).await? {
        Answer::Ok(made) => {
            tell_key(made["key"].as_str().unwrap_or_default());
            Ok(())
        }
        Answer::NotFound => Err(anyhow::anyhow!("the server has no keys: is it a Duebook server?").into()),
    }
}

async fn list_remote(remote: &Remote) -> Outcome {
    let Answer::Ok(answer) = remote.get(&["v1", "keys"], &[]).await? else {
        return Err(anyhow::anyhow!("the server has no keys: is it a Duebook server?").into());
    };
    let words = |value: &Value| {
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
    };
    for row in answer["items"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let state = row["revoked_at"].as_str().map_or("active".to_owned(), |at| format!("revoked {at}"));
        print(
            text("id"),
            text("name"),
            &words(&row["scopes"]),
            &words(&row["queues"]),
            text("created_at"),
            &state,
        );
    }
    Ok(())
}

async fn revoke_remote(remote: &Remote, id: &str) -> Outcome {
    match remote.send(Method::DELETE, &["v1", "keys", id], &[], None).await? {
        Answer::Ok(_) => {
            output::line(&format!("{id} is revoked"));
            Ok(())
        }
        Answer::NotFound => Err(no_key(id)),
    }
}
