//! The `tidegate` command: see `tidegate --help`.

use std::process::ExitCode;

use tidegate::app::App;
use tidegate::cli;

fn main() -> ExitCode {
    cli::main(&App)
}
