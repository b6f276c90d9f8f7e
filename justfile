# Everyday commands; `just` lists them. Without just, each line can be typed as it stands.

loadtest := "cargo run --release -p loadtest --"

[private]
default:
    @just --list --unsorted

# An S3 origin with sample media, and the gateway in front of it: nothing to install
demo *args:
    cargo run --release -- demo {{ args }}

# Serve by a configuration file
serve config="config/tidegate.toml":
    cargo run --release -- serve --config {{ config }}

# Everything that needs nothing but Rust
test *args:
    cargo test --workspace {{ args }}

# The suites with a real MinIO, nginx, ffprobe and Chromium (`just setup --minimal` installs the first two, and axe-core)
test-real *args:
    PATH="${XDG_CACHE_HOME:-$HOME/.cache}/tidegate-tools/bin:$PATH" \
        TIDEGATE_AXE="${XDG_CACHE_HOME:-$HOME/.cache}/tidegate-tools/axe.min.js" \
        cargo test -p tidegate --features real-parts {{ args }}

# The fuzz targets of the parsers, each for so many seconds, or one by its name: `just fuzz 600 an_accepted_key`
fuzz seconds="60" *args:
    BOLERO_RANDOM_TEST_TIME_MS={{ seconds }}000 BOLERO_RANDOM_ITERATIONS=1000000000 \
        cargo test $(ls gateway/crates/*/tests/fuzz.rs | sed 's#.*crates/\(.*\)/tests.*#-p tidegate-\1#') \
        --no-fail-fast --test fuzz -- {{ args }}

# Format and lint, as `ci` checks it
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets --all-features -- -D warnings

# Write CONFIGURATION.md, METRICS.md, openapi.json, config/tidegate.toml and config/schema.json anew from the code
docs:
    UPDATE=1 cargo test -p tidegate-config --test suite reference
    UPDATE=1 cargo test -p tidegate --test metrics_doc
    UPDATE=1 cargo test -p tidegate --test console the_document_is_the_one_that_is_kept

# The documentation of the code, in the browser
api:
    RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --all-features --no-deps --document-private-items --open

# All of the above and more, on Debian as root: installs what it needs
ci:
    bash .ci/run

# Figures of the console, by the shipped profile: a folder of 100,000 keys, 2,000 readers at once, its cost beside hits
figures:
    cargo test -p tidegate --profile dist --test console -- --ignored --nocapture --test-threads 1 figures

# Licences, advisories and sources of the dependencies (needs cargo-deny)
deny:
    cargo deny check

# Install what the load test measures against
setup *args:
    bash loadtest/setup {{ args }}

# Which load test scenarios there are
scenarios:
    {{ loadtest }} list

# Run load test scenarios, such as `just loadtest hot --rounds 7 --report report`
loadtest *args: dist
    {{ loadtest }} run {{ args }}

# Speed beside the peers
bench: dist
    {{ loadtest }} run hot first-byte --report report

# Nanoseconds of the pure parts of a hit, and of the engine's share
bench-pure *args:
    cargo bench -p tidegate-benches --bench pure {{ args }}

# Instructions of a hit by each way in, against the number on record (needs valgrind)
instructions: dist
    {{ loadtest }} run instructions

# Look-ups, memory and starts with 10,000,000 keys and 4,000,000 chunks on disk (needs 20 GB)
growth: dist
    cargo build --locked --profile dist -p tidegate-benches --bin growth
    mkdir -p target/growth
    target/dist/growth target/growth

# Purges of 10,000 keys, of a prefix of a million and of a tag of 100,000 (needs 2 GB)
purges: dist
    cargo build --locked --profile dist -p tidegate-benches --bin purges
    mkdir -p target/purges
    target/dist/purges target/purges
    {{ loadtest }} run purge --report report

# The long runs: that it stays right, in full counts
long: dist
    {{ loadtest }} run cold-requests ranges herd churn --report report

# The long runs of the disk tier, on a machine with loop devices and blkio groups (needs root)
long-disk: dist
    {{ loadtest }} run disk-first disk-published disk-second disk-two disk-start disk-zipf \
        disk-down disk-kill disk-flips disk-faults --report report

# The proofs of a mount that is written to, in full (as root; needs MinIO, fsx, qemu-utils, fio)
long-mount:
    PATH="${XDG_CACHE_HOME:-$HOME/.cache}/tidegate-tools/bin:$PATH" \
        TIDEGATE_FSX_OPS=100000 TIDEGATE_KILLS=50 TIDEGATE_MODEL_SEEDS=50 \
        cargo test -p tidegate --features real-parts --test real_mount_proof -- --test-threads 1
    PATH="${XDG_CACHE_HOME:-$HOME/.cache}/tidegate-tools/bin:$PATH" \
        cargo test -p tidegate --features real-parts --test write_minio -- --ignored too_large
    TIDEGATE_NAMES=1000000 cargo test -p tidegate --features real-parts --test real_mount -- large_folder

# The model of the mount on seeds drawn from the clock, by night (as root; needs MinIO): a failure is repeated with its seed
night seeds="200":
    seed="${TIDEGATE_SEED:-$(date +%s)}" && echo "TIDEGATE_SEED=$seed" && \
        PATH="${XDG_CACHE_HOME:-$HOME/.cache}/tidegate-tools/bin:$PATH" \
        TIDEGATE_SEED="$seed" TIDEGATE_MODEL_SEEDS={{ seeds }} \
        cargo test -p tidegate --features real-parts --test real_mount_proof -- --test-threads 1 model::

# Power cuts under cache, state and spool, 200 of them (as root; needs MinIO)
long-power:
    PATH="${XDG_CACHE_HOME:-$HOME/.cache}/tidegate-tools/bin:$PATH" \
        TIDEGATE_CUTS=200 TIDEGATE_SEED="${TIDEGATE_SEED:-1}" \
        cargo test -p tidegate --features real-parts --test real_power_cut -- --nocapture

# WordPress in full: a film of 1 GB, 500 photos made anew (as root; needs what `ci` installs)
long-wordpress:
    PATH="${XDG_CACHE_HOME:-$HOME/.cache}/tidegate-tools/bin:$PATH:/usr/sbin" \
        TIDEGATE_FILM=1024 TIDEGATE_PHOTOS=500 \
        cargo test -p tidegate --features real-parts --test real_wordpress -- --nocapture films regenerated

# restic and borg back up and restore 2 GB on a mount (as root; needs MinIO and what `ci` installs)
long-backups:
    PATH="${XDG_CACHE_HOME:-$HOME/.cache}/tidegate-tools/bin:$PATH" \
        TIDEGATE_BACKUP_MB=2000 \
        cargo test -p tidegate --features real-parts --test real_library -- --nocapture backups

# A fleet of three over 1,000 random purges, writes, restarts and cuts, of NATS and of one gateway (needs MinIO and nats-server)
fleet:
    PATH="${XDG_CACHE_HOME:-$HOME/.cache}/tidegate-tools/bin:$PATH" \
        TIDEGATE_FLEET_OPS=1000 TIDEGATE_SEED="${TIDEGATE_SEED:-1}" \
        cargo test -p tidegate --features real-parts --test real_fleet -- --nocapture

# 1,000 reloads under load: no failed request, nothing left behind
reloads:
    TIDEGATE_RELOADS=1000 cargo test --release -p tidegate --test reload -- --nocapture however_often

# The mount beside other mounts (needs root; `loadtest/setup --mounts`)
long-mounts: dist
    {{ loadtest }} run mount-read mount-folder mount-scan mount-write mount-small --report report

# Chromium, mpv and VLC on cold media (needs root for the mounts)
long-players: dist
    {{ loadtest }} run players --report report

# Real faults of a cache disk, for a short while: needs root, loop devices and mounting, which not
# every machine that runs `ci` gives
disk-faults *args: dist
    {{ loadtest }} run disk-faults --seconds 3 {{ args }}

# The binary that is shipped and that the load test starts, stripped, at most 50 MB; its debug information lies beside it
dist *args:
    cargo build --profile dist -p tidegate {{ args }}
    bash docker/strip "${CARGO_TARGET_DIR:-target}/dist/tidegate"
    test "$(stat -c %s "${CARGO_TARGET_DIR:-target}/dist/tidegate")" -le 50000000
