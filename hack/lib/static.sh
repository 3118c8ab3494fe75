# shellcheck shell=bash
# Sourced. Static programs: for images that hold nothing else.
#
# Needs: cargo.sh; the current folder is the repository's.

# static_targets prints what to build for: this processor first, then arm64 where its toolchain is there. musl where that target is
# installed, else glibc, which links statically, too.
static_targets() {
    local processor
    for processor in "$(uname -m)" aarch64; do
        if has_target "$processor-unknown-linux-musl"; then
            printf '%s-unknown-linux-musl\n' "$processor"
        elif has_target "$processor-unknown-linux-gnu" && has_linker "$processor"; then
            printf '%s-unknown-linux-gnu\n' "$processor"
        fi
    done | awk '!seen[$0]++'
}

has_target() { [[ -d $(rustc --print target-libdir --target "$1" 2>/dev/null) ]]; }

has_linker() { [[ $1 == $(uname -m) ]] || command -v "$1-linux-gnu-gcc" >/dev/null; }

# build_static TARGET PROFILE ARGUMENT... builds programs that need nothing beside them.
build_static() {
    local target=$1 profile=$2 variable flags='-C target-feature=+crt-static'
    shift 2
    variable=${target//-/_}
    variable=CARGO_TARGET_${variable^^}
    # Where this machine keeps crates is nobody's business, and would make another digest elsewhere. (Our own paths are relative.)
    flags+=" --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
    flags+=" $(small "$target")"
    local settings=("${variable}_RUSTFLAGS=$flags")
    [[ $target == $(uname -m)-* ]] || settings+=("${variable}_LINKER=${target%%-*}-linux-gnu-gcc")
    env "${settings[@]}" cargo build --locked --profile "$profile" --target "$target" "$@" >&2
}

# small TARGET prints what makes a program smaller and not measurably slower: functions are inlined where that pays most,
# relocations are packed, and functions of the same code are one, where the linker can (Rust's own does, on this target).
small() {
    printf '%s ' -C llvm-args=-inline-threshold=50 -C llvm-args=-inlinehint-threshold=200 -C link-arg=-Wl,-z,pack-relative-relocs
    [[ $1 != x86_64-unknown-linux-gnu ]] || printf '%s ' -C link-arg=-Wl,--icf=all -C link-arg=-Wl,-O2
}

# static_program TARGET PROFILE NAME prints where build_static puts a program.
static_program() { printf '%s/%s/%s/%s' "$CARGO_TARGET_DIR" "$1" "$2" "$3"; }
