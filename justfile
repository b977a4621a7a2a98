# The developer's commands. `just` lists them.

# release, or dist for figures that are published: just profile=dist bench-fire
profile := "release"
duebook := "cargo run --quiet --profile " + profile + " -p duebook --"

_list:
    @just --list --unsorted

# Build the program
build:
    cargo build --profile {{ profile }} -p duebook

# Everything that must be green
test *ARGS:
    ./test {{ ARGS }}

# The tests of one crate: just test-crate duebook-engine
test-crate CRATE *ARGS:
    cargo nextest run --all-features -p {{ CRATE }} {{ ARGS }}

# Format
fmt:
    cargo fmt --all

# Clippy, as ./test runs it
lint:
    cargo clippy --workspace --all-targets --all-features --locked -- -D warnings

# Check the house: edges between crates, file sizes, leftovers
tidy:
    cargo test -p duebook-tidy

# The documentation, as ./test builds it
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --locked

# Licences and advisories
deny:
    cargo deny --all-features check

# Write docs/errors.md and docs/metrics.md anew
bless:
    DUEBOOK_BLESS=1 cargo nextest run --all-features -p duebook-server

# Serve on ./duebook-data
serve *ARGS:
    {{ duebook }} serve {{ ARGS }}

# A first task on a throwaway store: scheduled, leased when it is due, settled, its story told
demo: build
    #!/usr/bin/env bash
    set -euo pipefail
    bin=${CARGO_TARGET_DIR:-target}/{{ profile }}/duebook
    dir=$(mktemp -d)
    "$bin" serve --listen 127.0.0.1:0 --data "$dir/data" >"$dir/out" 2>"$dir/log" &
    server=$!
    trap 'kill $server; wait $server || true; rm -r "$dir"' EXIT
    for _ in $(seq 100); do grep -q listening "$dir/out" && break; sleep 0.1; done
    url=$(sed -n 's/^duebook listening on //p' "$dir/out")
    [ -n "$url" ] || { cat "$dir/log"; exit 1; }
    text() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
    echo "schedule a task two seconds ahead"
    curl -sS --json '{"queue":"hello","key":"order-1001","delay_ms":2000}' "$url/v1/tasks"; echo
    echo "lease it: the answer comes when it is due"
    leased=$(curl -sS --json '{"worker":"demo","wait_ms":10000}' "$url/v1/queues/hello/lease"); echo "$leased"
    id=$(text id <<<"$leased") token=$(text lease_token <<<"$leased")
    echo "settle it"
    curl -sS --json "{\"results\":[{\"id\":\"$id\",\"lease_token\":\"$token\",\"outcome\":\"done\"}]}" "$url/v1/leases/settle"; echo
    echo "its story"
    "$bin" task "$id" --server "$url"

# How fast tasks are taken: one a request
bench-schedule *ARGS:
    {{ duebook }} bench schedule {{ ARGS }}

# How fast tasks are taken: a thousand a request
bench-bulk *ARGS:
    {{ duebook }} bench schedule --bulk {{ ARGS }}

# How late tasks start: just bench-fire --rate 15000 --handler lease
bench-fire *ARGS:
    {{ duebook }} bench fire {{ ARGS }}

# How fast overdue tasks are worked off
bench-drain *ARGS:
    {{ duebook }} bench drain {{ ARGS }}

# The timing wheel alone, beside others
bench-wheel *ARGS:
    cargo run --quiet --profile {{ profile }} -p duebook-wheel --example measure -- {{ ARGS }}

# The store alone
bench-store *ARGS:
    cargo run --quiet --profile {{ profile }} -p duebook-store --example life_cycle -- {{ ARGS }}

# The crash test: just crash 5 for five kills
crash KILLS="30":
    DUEBOOK_CRASH_KILLS={{ KILLS }} cargo nextest run --all-features -p duebook --test crash --no-capture

# The engine on a faulty store in virtual time
simulate *ARGS:
    cargo nextest run --all-features -p duebook-engine --test simulation {{ ARGS }}

# Two years of recorded orders in five minutes, against a running server
late-watch *ARGS:
    cargo run --profile {{ profile }} -p duebook-client --example late_watch -- {{ ARGS }}
