//! Hands over to the library's command line.

fn main() -> std::process::ExitCode {
    hermes_log::cli::run()
}
