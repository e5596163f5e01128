//! The manual pages, in roff: the commands and flags from the command line's own description, and what no flag says (files,
//! environment, signals, exit status, examples).
//!
//! One page has all commands; each command has a short one as well. The settings have their own description in the shipped file and
//! the schema.

use super::command_line::Cli;
use super::{logging, output};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Terms with their descriptions, one list for each section after the commands.
type Section = (&'static str, &'static [(&'static str, &'static str)]);

const SECTIONS: &[Section] = &[
    (
        "EXIT STATUS",
        &[
            ("0", "Success. check: the gateway would start with this file (warnings may have been printed)."),
            (
                "1",
                "A problem, printed to standard error. check: the gateway would not start, or not with all of \
                 what the file says. explain: the request would be refused.",
            ),
            ("2", "A wrong command line."),
        ],
    ),
    (
        "FILES",
        &[
            ("conf/turnpike.yaml", "The settings when no -c is given, in the working directory."),
            (
                "/etc/turnpike/turnpike.yaml",
                "The settings under the shipped systemd unit, and when no -c is given and there is no conf/turnpike.yaml.",
            ),
            (
                "/var/lib/turnpike, conf/data",
                "The store (turnpike.db), its master key (master.key), the first administrator's key (administrator.key) and the last snapshot, under the shipped unit and from a \
                 checkout.",
            ),
            ("/var/log/turnpike", "The access log, where it is a file and the unit is used."),
        ],
    ),
    (
        "ENVIRONMENT",
        &[
            ("NAME", "Any variable that the settings refer to as ${NAME}."),
            (
                "CREDENTIALS_DIRECTORY",
                "The directory with the files that the settings refer to as credential:NAME. systemd sets it \
                 (LoadCredential=).",
            ),
            (
                "TURNPIKE_URL, TURNPIKE_KEY",
                "The gateway that get, create, edit, delete and nodes call, and the service key they use.",
            ),
            ("VISUAL, EDITOR", "The editor of edit; vi without them."),
            (
                "STATE_DIRECTORY",
                "The directory of the store, unless server.state_dir names one. systemd sets it (StateDirectory=). Without both: \
                 /var/lib/turnpike for settings below /etc/turnpike, else data beside the settings.",
            ),
            ("NOTIFY_SOCKET, WATCHDOG_USEC", "Set by systemd, for readiness and its watchdog."),
        ],
    ),
    (
        "SIGNALS",
        &[
            (
                "SIGHUP",
                "Reload the settings as a whole. A file with a problem is refused, and the old settings stay.",
            ),
            ("SIGUSR1", "Reopen the access log."),
            ("SIGTERM", "Stop: readiness fails, open requests may end, then the process exits."),
            ("SIGINT", "Stop at once."),
            ("SIGQUIT", "Start a new process and hand over to it, as turnpike upgrade does."),
        ],
    ),
    (
        "EXAMPLES",
        &[
            ("turnpike check -c turnpike.yaml", "All problems of a settings file."),
            ("turnpike run -c turnpike.yaml", "Serve."),
            ("curl -f http://127.0.0.1:8788/readyz", "Whether it serves."),
        ],
    ),
];

/// Prints the page of all commands, or writes it and one for each command into a directory.
pub fn run(to: Option<&Path>) -> ExitCode {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = write(&mut page);
    let Some(folder) = to else { return output::print(&page) };
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join("turnpike.1"), &page))
        .and_then(|()| write_pages_below(&built(), folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => logging::fatal(&format!("--to {}: {why}", folder.display())),
    }
}

/// The command line with the names and global flags of its commands filled in.
fn built() -> Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

/// A page for each command below this one, such as `turnpike-keys.1` and `turnpike-keys-create.1`.
fn write_pages_below(command: &Command, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands() {
        let mut page = Vec::new();
        write_page_of(subcommand, &mut page)?;
        let name = Man::new(subcommand.clone()).get_filename();
        std::fs::write(folder.join(name), page)?;
        write_pages_below(subcommand, folder)?;
    }
    Ok(())
}

fn write_page_of(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone()).source(concat!("turnpike ", env!("CARGO_PKG_VERSION")));
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("turnpike"), roman("(1): files, environment, signals, exit status")]);
    roff.to_writer(page)
}

fn write(page: &mut Vec<u8>) -> io::Result<()> {
    let command = built();
    let man = Man::new(command.clone().after_help(""));
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    let mut roff = Roff::new();
    roff.control("SH", ["COMMANDS"]);
    roff.to_writer(page)?;
    for subcommand in command.get_subcommands() {
        write_command(subcommand, page)?;
    }
    for (title, entries) in SECTIONS {
        let mut roff = Roff::new();
        roff.control("SH", [*title]);
        for (term, description) in *entries {
            roff.control("TP", []);
            roff.text([bold(*term)]);
            roff.text([roman(*description)]);
        }
        roff.to_writer(page)?;
    }
    man.render_version_section(page)
}

/// A command with the flags of its own: those of all commands are listed once.
fn write_command(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let name = format!("turnpike {}", command.get_name());
    let mut roff = Roff::new();
    roff.control("SS", [name.as_str()]);
    roff.text([roman(command.get_about().map(ToString::to_string).unwrap_or_default())]);
    roff.to_writer(page)?;
    let own =
        command.get_arguments().filter(|argument| !argument.is_global_set() && argument.get_id() != "help");
    let flags = Command::new("flags").disable_help_flag(true).disable_version_flag(true).args(own.cloned());
    let mut section = Vec::new();
    Man::new(flags).render_options_section(&mut section)?;
    let section = String::from_utf8_lossy(&section).replace(".SH OPTIONS\n", "");
    page.extend_from_slice(section.as_bytes());
    Ok(())
}
