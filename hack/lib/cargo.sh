# shellcheck shell=bash
# Sourced. Where cargo builds for the scripts of this folder: beside the tools, so that a clean clone does not compile every
# dependency again. A CARGO_TARGET_DIR of the caller wins.
#
# Needs: progress.sh.

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/oxolm/target}

# own_target_folder waits until no other script builds there: checkouts that share the folder would replace each other's programs.
# The lock is let go when the calling script ends; scripts that it calls meanwhile build under it.
own_target_folder() {
    [[ ${OXOLM_OWN_TARGET:-} != "$CARGO_TARGET_DIR" ]] || return 0
    mkdir -p "$CARGO_TARGET_DIR"
    exec 8>"$CARGO_TARGET_DIR/oxolm.lock"
    flock --nonblock 8 || { say "another script builds in $CARGO_TARGET_DIR: waiting for it" && flock 8; }
    export OXOLM_OWN_TARGET=$CARGO_TARGET_DIR
}
