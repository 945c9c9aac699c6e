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

impl ServiceAccount {
    /// User name of the ServiceAccount for the API server.
    pub(super) fn user_name(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Suffix of the names of objects that are only for this ServiceAccount.
    pub(super) fn object_name(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }
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

/// The roles as YAML; with a service account, also their bindings. With the namespace of Cilium,
/// Cilium's objects are read there only.
pub(super) fn yaml(
    set: RoleSet,
    account: Option<&ServiceAccount>,
    cilium_namespace: Option<&str>,
) -> String {
    let namespaces: Vec<&str> = match cilium_namespace {
        Some(other) if other != NAMESPACE => vec![NAMESPACE, other],
        Some(_) | None => vec![NAMESPACE],
    };
    let roles = set.roles();
    let texts = roles.iter().flat_map(|role| match cilium_namespace {
        Some(_) => role.limited_to(&namespaces),
        None => vec![role.yaml.to_owned()],
    });
    let bindings = account.into_iter().flat_map(|account| {
        let of_role = |role: &Role| role.bindings(account, &namespaces);
        roles.iter().flat_map(of_role).collect::<Vec<_>>()
    });
    let documents: Vec<String> = texts.chain(bindings).collect();
    format!(
        "{}\n{}",
        introduction(roles, account, cilium_namespace, &namespaces),
        documents.join("---\n")
    )
}

fn introduction(
    roles: &[Role],
    account: Option<&ServiceAccount>,
    cilium_namespace: Option<&str>,
    namespaces: &[&str],
) -> String {
    let mut text = "# Roles for cilium-ipam outside the cluster".to_owned();
    match account {
        Some(ServiceAccount { namespace, name }) => {
            text += &format!(", bound to the service account {namespace}/{name}.\n");
        }
        None => {
            text += ". Bind them to a user or a group, or print them\n# with --serviceaccount NAMESPACE/NAME, which adds the bindings:\n";
            for role in roles {
                text += &role.commands(namespaces);
            }
        }
    }
    text + &match cilium_namespace {
        None => "# The Roles are for kube-system, where the claims are. If Cilium runs in another namespace,\n# print them with --cilium-namespace.\n".to_owned(),
        Some(namespace) => format!(
            "# Objects of Cilium are read in {namespace} only: run every command with\n# --cilium-namespace {namespace}.\n"
        ),
    }
}

impl Role {
    /// Whether the role has a Role for one namespace in addition to the ClusterRole.
    fn has_namespaced(&self) -> bool {
        self.yaml.contains("\nkind: Role\n")
    }

    /// YAML of the role that may read Cilium's DaemonSet in these namespaces only.
    fn limited_to(&self, namespaces: &[&str]) -> Vec<String> {
        let of_cluster = |verb: &str| {
            format!("- apiGroups: [apps]\n  resources: [daemonsets]\n  verbs: [{verb}]\n")
        };
        let yaml = ["list", "watch"]
            .iter()
            .fold(self.yaml.to_owned(), |yaml, verb| {
                yaml.replace(&of_cluster(verb), "")
            });
        let Some((of_cluster, of_namespace)) = yaml.split_once("---\n") else {
            return vec![yaml];
        };
        let of_namespaces = namespaces.iter().map(|namespace| {
            of_namespace.replace(
                &format!("  namespace: {NAMESPACE}\n"),
                &format!("  namespace: {namespace}\n"),
            )
        });
        [of_cluster.to_owned()]
            .into_iter()
            .chain(of_namespaces)
            .collect()
    }

    /// Commands of kubectl that bind the role to a user, as comments in YAML.
    fn commands(&self, namespaces: &[&str]) -> String {
        let name = self.name;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "#   kubectl create clusterrolebinding {name} --clusterrole {name} --user NAME"
        );
        for namespace in namespaces.iter().filter(|_| self.has_namespaced()) {
            let _ = writeln!(
                text,
                "#   kubectl create rolebinding {name} -n {namespace} --role {name} --user NAME"
            );
        }
        text
    }

    fn bindings(&self, account: &ServiceAccount, namespaces: &[&str]) -> Vec<String> {
        let of_cluster = self.binding("ClusterRole", "", account);
        let namespaces = namespaces.iter().filter(|_| self.has_namespaced());
        let of_namespaces = namespaces
            .map(|namespace| self.binding("Role", &format!("  namespace: {namespace}\n"), account));
        [of_cluster].into_iter().chain(of_namespaces).collect()
    }

    /// YAML of a binding. Its name has the ServiceAccount's name, so that several accounts can have
    /// the role.
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
        let text = yaml(RoleSet::Plan, None, None);
        assert!(
            !text.contains("patch") && !text.contains("cilium-ipam-apply"),
            "{text}"
        );
        assert!(yaml(RoleSet::Apply, None, None).contains("name: cilium-ipam-apply"));
        assert!(!yaml(RoleSet::Apply, None, None).contains("name: cilium-ipam-watch"));
        assert!(!yaml(RoleSet::Watch, None, None).contains("pods/eviction"));
        assert!(yaml(RoleSet::Migrate, None, None).contains("pods/eviction"));
        for role in RoleSet::All.roles() {
            assert!(role.yaml.contains(&format!("name: {}\n", role.name)));
        }
    }

    #[test]
    fn objects_of_cilium_are_read_in_its_namespace_only() {
        let account = "ci/planner".parse().unwrap();
        let text = yaml(RoleSet::All, Some(&account), Some("cilium"));
        let of_cluster = text
            .split("---\n")
            .filter(|text| text.contains("kind: ClusterRole\n"));
        for role in of_cluster {
            assert!(!role.contains("daemonsets"), "{role}");
        }
        let roles = |namespace: &str| {
            let of = format!("  namespace: {namespace}\n");
            text.split("---\n")
                .filter(|text| text.contains(&of))
                .count()
        };
        assert_eq!(roles("cilium"), roles("kube-system"));
        assert!(roles("cilium") > 0);
        assert!(text.contains("resources: [deployments, daemonsets]\n  verbs: [watch]"));
        let usual = yaml(RoleSet::All, None, Some("kube-system"));
        assert_eq!(
            usual.matches("kind: Role\n").count(),
            yaml(RoleSet::All, None, None)
                .matches("kind: Role\n")
                .count()
        );
    }
}
