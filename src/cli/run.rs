//! `oxolm run`

use crate::cli::Answer;
use crate::runtime;
use crate::runtime::arguments::RunArguments;

/// Runs the controllers until a signal.
pub(super) fn run(arguments: RunArguments) -> anyhow::Result<Answer> {
    runtime::memory::give_back_what_is_freed();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(runtime::run(arguments))?;
    Ok(Answer::Yes)
}
