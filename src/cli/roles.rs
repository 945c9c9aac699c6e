//! The roles that commands need in the cluster, as YAML for `kubectl apply`, and their bindings to
//! a service account. It never reads a cluster.

use std::fmt::Write as _;
use std::str::FromStr;

use clap::ValueEnum;

/// Commands that need the same roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RoleSet {
    /// `plan`, `show` and `comment`: reads only.
    Plan,
    /// `doctor`, `explain` and `snapshot`: reads only.
    Doctor,
    /// `apply`.
    Apply,
    /// `watch`.
    Watch,
    /// `migrate`.
    Migrate,
    /// All commands.
    All,
}

/// A ClusterRole, and perhaps a Role of the same name. A test compares them with the documentation.
#[derive(Clone, Copy, Debug)]
struct Role {
    name: &'static str,
    yaml: &'static str,
}

const PLAN: Role = Role {
    name: "cilium-ipam-plan",
    yaml: include_str!("roles/plan.yaml"),
};
const DOCTOR: Role = Role {
    name: "cilium-ipam-doctor",
    yaml: include_str!("roles/doctor.yaml"),
};
const WATCH: Role = Role {
    name: "cilium-ipam-watch",
    yaml: include_str!("roles/watch.yaml"),
};
const APPLY: Role = Role {
    name: "cilium-ipam-apply",
    yaml: include_str!("roles/apply.yaml"),
};
const MIGRATE: Role = Role {
    name: "cilium-ipam-migrate",
    yaml: include_str!("roles/migrate.yaml"),
};

/// The namespace of the Roles.
const NAMESPACE: &str = "kube-system";

const API: &str = "rbac.authorization.k8s.io";

impl RoleSet {
    fn roles(self) -> &'static [Role] {
        match self {
            RoleSet::Plan => &[PLAN],
            RoleSet::Doctor => &[PLAN, DOCTOR],
            RoleSet::Apply => &[PLAN, APPLY],
            RoleSet::Watch => &[PLAN, WATCH, APPLY],
            RoleSet::Migrate => &[PLAN, MIGRATE],
            RoleSet::All => &[PLAN, DOCTOR, WATCH, APPLY, MIGRATE],
        }
    }
}

/// A service account, as `NAMESPACE/NAME` or, as kubectl writes it, `NAMESPACE:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceAccount {
    namespace: String,
    name: String,
}

impl FromStr for ServiceAccount {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ServiceAccount, &'static str> {
        let is_name = |name: &str, others: &[char]| {
            let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            name.starts_with(is_letter)
                && name.ends_with(is_letter)
                && name.chars().all(|c| is_letter(c) || others.contains(&c))
        };
        match text.split_once(['/', ':']) {
            Some((namespace, name)) if is_name(namespace, &['-']) && is_name(name, &['-', '.']) => {
                Ok(ServiceAccount {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            Some(_) | None => {
                Err("expected NAMESPACE/NAME of a service account, such as `ci/planner`")
            }
        }
    }
}

/// The roles as YAML; with a service account, also their bindings.
pub(super) fn yaml(set: RoleSet, account: Option<&ServiceAccount>) -> String {
    let roles = set.roles();
    let documents: Vec<String> = roles
        .iter()
        .map(|role| role.yaml.to_owned())
        .chain(account.into_iter().flat_map(|account| {
            let of_role = |role: &Role| role.bindings(account);
            roles.iter().flat_map(of_role).collect::<Vec<_>>()
        }))
        .collect();
    format!(
        "{}\n{}",
        introduction(roles, account),
        documents.join("---\n")
    )
}

fn introduction(roles: &[Role], account: Option<&ServiceAccount>) -> String {
    let mut text = "# Roles for cilium-ipam outside of the cluster".to_owned();
    match account {
        Some(ServiceAccount { namespace, name }) => {
            text += &format!(", bound to the service account {namespace}/{name}.\n");
        }
        None => {
            text += ". Bind them to a user or a group, or print them\n# with --serviceaccount NAMESPACE/NAME, which adds the bindings:\n";
            for role in roles {
                text += &role.commands();
            }
        }
    }
    text + "# The Roles are for kube-system, where the claims are. If Cilium runs in another namespace,\n# create them and their bindings there, too.\n"
}

impl Role {
    /// Whether there is a Role of one namespace beside the ClusterRole.
    fn has_namespaced(&self) -> bool {
        self.yaml.contains("\nkind: Role\n")
    }

    /// kubectl's commands that bind it to a user, as comments.
    fn commands(&self) -> String {
        let name = self.name;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "#   kubectl create clusterrolebinding {name} --clusterrole {name} --user NAME"
        );
        if self.has_namespaced() {
            let _ = writeln!(
                text,
                "#   kubectl create rolebinding {name} -n {NAMESPACE} --role {name} --user NAME"
            );
        }
        text
    }

    fn bindings(&self, account: &ServiceAccount) -> Vec<String> {
        let of_cluster = self.binding("ClusterRole", "", account);
        let of_namespace = self
            .has_namespaced()
            .then(|| self.binding("Role", &format!("  namespace: {NAMESPACE}\n"), account));
        [of_cluster].into_iter().chain(of_namespace).collect()
    }

    /// The name has the account's, so that several accounts can have the role.
    fn binding(&self, kind: &str, namespace_line: &str, account: &ServiceAccount) -> String {
        let role = self.name;
        let ServiceAccount { namespace, name } = account;
        format!(
            r#"apiVersion: {API}/v1
kind: {kind}Binding
metadata:
  name: "{role}:{namespace}:{name}"
{namespace_line}roleRef:
  apiGroup: {API}
  kind: {kind}
  name: {role}
subjects:
- kind: ServiceAccount
  namespace: "{namespace}"
  name: "{name}"
"#
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_has_a_namespace_and_a_name() {
        for text in ["ci/planner", "ci:planner", "1e3/a.b-c"] {
            text.parse::<ServiceAccount>().unwrap();
        }
        for text in [
            "planner", "/a", "ci/", "ci/a/b", "CI/a", "ci/a\"b", "a.b/c", "ci/-a",
        ] {
            text.parse::<ServiceAccount>().unwrap_err();
        }
    }

    #[test]
    fn only_the_roles_for_a_command_are_printed() {
        let text = yaml(RoleSet::Plan, None);
        assert!(
            !text.contains("patch") && !text.contains("cilium-ipam-apply"),
            "{text}"
        );
        assert!(yaml(RoleSet::Apply, None).contains("name: cilium-ipam-apply"));
        assert!(!yaml(RoleSet::Apply, None).contains("name: cilium-ipam-watch"));
        assert!(!yaml(RoleSet::Watch, None).contains("pods/eviction"));
        assert!(yaml(RoleSet::Migrate, None).contains("pods/eviction"));
        for role in RoleSet::All.roles() {
            assert!(role.yaml.contains(&format!("name: {}\n", role.name)));
        }
    }
}
