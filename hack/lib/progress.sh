# shellcheck shell=bash
# Sourced by the scripts of this folder: one line for each step, on stderr, so that stdout stays for answers.

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# step N TOTAL WHAT begins a line; step_end HOW ends it with the time that the step took.
step() {
    step_started=$EPOCHREALTIME
    printf '[%s/%s] %s … ' "$1" "$2" "$3" >&2
}

step_end() { say "$1 ($(elapsed_since "$step_started"))"; }

# elapsed_since START prints seconds with one digit, or minutes and seconds; START is a value of $EPOCHREALTIME.
elapsed_since() {
    local tenths=$(((${EPOCHREALTIME/[.,]/} - ${1/[.,]/}) / 100000))
    if ((tenths < 600)); then
        printf '%d.%d s' $((tenths / 10)) $((tenths % 10))
    else
        printf '%d min %d s' $((tenths / 600)) $((tenths % 600 / 10))
    fi
}
