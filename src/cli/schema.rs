//! `schema`: prints the JSON Schema of the files, the CustomResourceDefinitions, the roles that
//! commands need, or the admission policies that limit what an account may change. The first two
//! come from the types that read the files.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use super::failure::Failure;
use super::roles::{self, RoleSet, ServiceAccount};
use super::{Common, ExitStatus, output};
use ipam_config::custom_resources::definitions;
use ipam_config::documents::{DocumentKind, editor_schema};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The kind. Default: all kinds.
    #[arg(value_name = "KIND", value_parser = kinds())]
    kind: Option<DocumentKind>,
    /// Print the CustomResourceDefinitions instead, as `kubectl apply --server-side -f -` takes
    /// them.
    #[arg(long, conflicts_with = "kind")]
    crds: bool,
    /// Print the roles that a command needs in the cluster instead, as `kubectl apply -f -` takes
    /// them. Default: those of all commands.
    #[arg(long, value_enum, value_name = "COMMAND", num_args = 0..=1,
        default_missing_value = "all", conflicts_with_all = ["kind", "crds"], group = "of_account")]
    rbac: Option<RoleSet>,
    /// Print the admission policies that limit a service account with the roles for `apply` or `watch`
    /// to the fields that these commands write, as `kubectl apply -f -` takes them.
    #[arg(long, conflicts_with_all = ["kind", "crds"], requires = "serviceaccount", group = "of_account")]
    admission: bool,
    /// The service account: with `--rbac`, also print the bindings of the roles to it.
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "of_account")]
    serviceaccount: Option<ServiceAccount>,
}

fn kinds() -> impl TypedValueParser<Value = DocumentKind> {
    let names = PossibleValuesParser::new(DocumentKind::ALL.map(DocumentKind::as_str));
    names.try_map(|name| name.parse().map_err(|()| "unknown kind"))
}

pub(super) fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    if let Some(set) = arguments.rbac {
        let namespace = common.cilium_namespace.as_deref();
        output::script(&roles::yaml(
            set,
            arguments.serviceaccount.as_ref(),
            namespace,
        ))?;
    } else if let Some(account) = arguments
        .serviceaccount
        .as_ref()
        .filter(|_| arguments.admission)
    {
        output::script(&yaml(account))?;
    } else if arguments.crds {
        output::json(&json!({"apiVersion": "v1", "kind": "List", "items": definitions()}))?;
    } else {
        output::json(&editor_schema(arguments.kind))?;
    }
    Ok(ExitStatus::Done)
}

/// With placeholders for the name and the user name of the account.
const POLICIES: &str = include_str!("../../ci/chart/files/account-policies.yaml");

/// The policies for an account that runs `apply` or `watch`, with their bindings.
pub(super) fn yaml(account: &ServiceAccount) -> String {
    POLICIES
        .replace("ACCOUNT_NAME", &account.object_name())
        .replace("ACCOUNT_USER", &account.user_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_for_the_account_and_has_a_binding() {
        let text = yaml(&"ci/applier".parse().unwrap());
        let count = |part: &str| text.matches(part).count();
        let condition = "request.userInfo.username == 'system:serviceaccount:ci:applier'";
        assert_eq!(count("kind: ValidatingAdmissionPolicy\n"), count(condition));
        assert_eq!(
            count("kind: ValidatingAdmissionPolicyBinding\n"),
            count(condition)
        );
        assert_eq!(count("name: cilium-ipam-nodes.ci.applier\n"), 2);
        assert_eq!(count("ACCOUNT_"), 0);
    }
}
