//! `oxolm rbac`: the rights that an installing account needs.

mod check;

use std::io::Write as _;

use anyhow::Context as _;
use clap::{Args, Subcommand};

use super::Answer;
use super::installer::held::Held;
use super::installer::{Installation, Roles, Target};
use super::objects::{Form, answer, json_list, yaml_stream};

/// Tell which rights an account needs to install a bundle.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        oxolm rbac generate ./my-bundle --namespace my-operator --service-account installer"
)]
pub(super) struct Rbac {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the least roles and bindings with which an account can install, maintain and remove a bundle.
    ///
    /// The rights are those on the objects of the bundle, by name, and those that the bundle gives to its own accounts:
    /// nobody may give away what he has not. The namespace and the account are not made.
    ///
    /// The roles of all versions of a package have the same names, so that those of a new version alone replace those of
    /// the installed one, whose rights the upgrade needs: for an upgrade name both, or the extension that is to be upgraded,
    /// and the new one alone when it is done.
    ///
    /// Exit code 0: printed; 1: the bundle is refused, or no catalog has it; 2: the input cannot be used.
    #[command(after_help = "Examples:\n  \
        oxolm rbac generate ./my-bundle --namespace my-operator --service-account installer | kubectl apply -f -\n  \
        oxolm rbac generate my-operator@1.x --catalog ./my-catalog -n my-operator --service-account installer\n  \
        oxolm rbac generate my-operator@1.0.0 my-operator@1.1.0 --catalog ./my-catalog -n my-operator --service-account installer\n  \
        oxolm rbac generate my-operator@1.1.0 --extension my-operator --cluster -n my-operator --service-account installer")]
    Generate(Generate),
    /// Ask a cluster whether an account has the rights to install, maintain and remove a bundle.
    ///
    /// The answer is that of the controller before its first write. For an upgrade name both versions, the new one last:
    /// what it drops of the others has to be taken down. Whoever asks must be allowed to impersonate the account.
    ///
    /// Exit code 0: it has all; 1: something is missing, or the bundle is refused; 2: the input or the cluster cannot be
    /// used.
    #[command(
        after_help = "Examples:\n  oxolm rbac check ./my-bundle --namespace my-operator --service-account installer\n  \
            oxolm rbac check my-operator@1.0.0 my-operator@1.1.0 --cluster -n my-operator --service-account installer"
    )]
    Check(check::Check),
}

#[derive(Debug, Args)]
struct Generate {
    /// The bundle: a directory, a tar archive or an image, or a package of a catalog with the versions that will do;
    /// several bundles of one package for an upgrade from one to another
    #[arg(
        value_name = "SRC|PACKAGE[@VERSION]",
        required_unless_present = "extension"
    )]
    bundles: Vec<String>,
    /// An extension of the cluster: what its revisions hold counts, too, whatever version and configuration they are of
    #[arg(long, value_name = "NAME")]
    extension: Option<String>,
    /// The namespace that oxolm runs in, and that holds what revisions consist of
    #[arg(long, value_name = "NAME", default_value = "olmv1-system")]
    system_namespace: String,
    /// The account
    #[arg(long, value_name = "NAME")]
    service_account: String,
    /// How to print them; json is one List
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
    #[command(flatten)]
    installation: Installation,
}

/// Runs `oxolm rbac`.
pub(super) fn run(arguments: &Rbac) -> anyhow::Result<Answer> {
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments),
        Command::Generate(arguments) => answer(generate(arguments), |text| {
            anstream::stdout()
                .write_all(text.as_bytes())
                .context("cannot write to standard output")
        }),
    }
}

/// What is printed.
fn generate(arguments: &Generate) -> anyhow::Result<String> {
    let installation = &arguments.installation;
    let account = installation.account(&arguments.service_account)?;
    let cluster = match &arguments.extension {
        Some(_) => Some(installation.catalogs.live.connect()?),
        None => installation.cluster()?,
    };
    let target = Target::new(cluster.as_ref(), &account)?;
    let bundles = if arguments.bundles.is_empty() {
        Vec::new()
    } else {
        installation.bundles(&arguments.bundles, target)?
    };
    let held = cluster.as_ref().zip(arguments.extension.as_deref());
    let held =
        held.map(|(cluster, extension)| Held::by(cluster, extension, &arguments.system_namespace));
    let held = held.transpose()?;
    let mut roles = Roles::of(&bundles, held.as_ref(), &account)?;
    if held.is_none() {
        let upgrade = installation.upgrade("generate", &arguments.bundles, &bundles, target);
        roles.say(upgrade.as_deref());
    }
    match arguments.output {
        Form::Json => json_list(&roles.manifests),
        Form::Yaml => Ok(roles.comment + &yaml_stream(&roles.manifests)?),
    }
}

#[cfg(test)]
mod tests;
