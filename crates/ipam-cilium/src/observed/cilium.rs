//! The running Cilium: version, settings, and the fields that it reads.

use std::collections::{BTreeMap, BTreeSet};

use super::go;
use super::operator_settings::{Written, switch_key};
use super::setting_key;
use super::settings::{Agent, Setting};
use crate::behaviours;
use ipam_core::model::{CiliumVersion, IpamMode};
use ipam_core::net::Family;

/// Observed version and settings of the running Cilium.
#[derive(Clone, Debug, Default)]
pub struct Cilium {
    /// Namespace of its DaemonSet or ConfigMap.
    pub namespace: Option<String>,
    /// Version and its source.
    pub version: Option<(CiliumVersion, Evidence)>,
    /// `cilium-config`; `None` if it is absent.
    pub settings: Option<BTreeMap<String, String>>,
    /// The IPAM mode that the user forces.
    pub mode_override: Option<IpamMode>,
    /// Last write of `cilium-config`, RFC 3339, if the server tells it.
    pub settings_written: Option<String>,
    /// Arguments of the DaemonSet's agent, if the DaemonSet is visible. They override the settings.
    pub agent_arguments: Option<BTreeMap<String, String>>,
    /// Arguments of the operator, if its Deployment is visible.
    pub operator_arguments: Option<BTreeMap<String, String>>,
    /// Keys of the arguments that environment variables set.
    pub operator_variables: BTreeSet<String>,
    /// Desired replicas of the operator, if its Deployment sets them.
    pub operator_replicas: Option<u32>,
    /// Whether the operator's Deployment is rolled out.
    pub operator_state: OperatorState,
    /// Arguments of the init container that merges settings of single nodes.
    pub resolver_arguments: BTreeMap<String, String>,
    /// Version of each operator, by its image tag. Of several operators, any may lead.
    pub operator_versions: BTreeSet<Option<CiliumVersion>>,
    pub agents: Vec<Agent>,
}

/// Rollout of the Deployment of Cilium's operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperatorState {
    /// It is complete.
    #[default]
    Settled,
    /// It is in progress, or the Deployment is being scaled: Pods are left.
    Changing,
    /// There are several Deployments.
    Several,
}

ipam_core::text_enum! {
    /// The source of a version, the most reliable first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Evidence {
        /// The command line.
        Flag = "--cilium-version",
        /// Image tag of the container `cilium-agent`.
        ImageTag = "image tag of the DaemonSet's cilium-agent",
        /// Label `helm.sh/chart` of the DaemonSet.
        ChartLabel = "label helm.sh/chart of the DaemonSet",
        /// Label `io.cilium.k8s.crd.schema.version` of Cilium's CRDs.
        SchemaLabel = "schema label of the CRD of CiliumNode",
    }
}

/// The observed IPAM mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeSeen {
    /// A known mode.
    Known(IpamMode),
    /// A mode that this program does not know.
    Unknown(String),
    /// No `cilium-config` was seen.
    NoSettings,
}

/// Whether agents use an address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyUse {
    /// It is enabled, and agents wait for a block.
    Required,
    /// It is disabled.
    Off,
    /// The settings do not tell.
    Unspecified,
}

/// Whether the agents read the pod-CIDR annotations of their Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationReads {
    Yes(AnnotationKeys),
    /// `annotate-k8s-node` is not `"true"`.
    GateClosed,
    /// The version is unknown, and so is the default of the missing setting.
    VersionUnknown,
}

/// Which annotation keys an agent knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationKeys {
    /// Only the older keys, up to 1.12.
    Older,
    /// Both. The newer keys hide the older ones.
    Both,
}

impl Cilium {
    /// `ipam` of `cilium-config`; absent means `cluster-pool` since 1.9.
    pub fn mode(&self) -> ModeSeen {
        if let Some(mode) = self.mode_override {
            return ModeSeen::Known(mode);
        }
        if self.settings.is_none() {
            return ModeSeen::NoSettings;
        }
        match self.setting(setting_key::IPAM) {
            None => ModeSeen::Known(IpamMode::ClusterPool),
            Some(text) => text
                .parse()
                .map_or_else(|()| ModeSeen::Unknown(text.to_owned()), ModeSeen::Known),
        }
    }

    /// Whether agents have the mode that was the default before 1.9: each makes up its own block.
    pub fn is_host_scope(&self) -> bool {
        let is_default = self.mode_override.is_none() && self.setting(setting_key::IPAM).is_none();
        let version = self.version.map(|(version, _)| version);
        is_default && version.is_some_and(|version| behaviours::HOST_SCOPE_DEFAULT.include(version))
    }

    /// `pkg/k8s/node.go` ParseNode: the gate is absent in 1.12.4 and present in 1.12.8, so a patch
    /// level in between, or an unknown one, counts as gated. `pkg/defaults`: `annotate-k8s-node` is
    /// on by default up to 1.11 and off after.
    pub(super) fn annotation_reads(&self, setting: Option<&str>) -> AnnotationReads {
        let is_on = setting.is_some_and(is_true);
        let Some((version, _)) = self.version else {
            return if is_on {
                AnnotationReads::Yes(AnnotationKeys::Both)
            } else {
                AnnotationReads::VersionUnknown
            };
        };
        let keys = if behaviours::ANNOTATION_BOTH_KEYS.include(version) {
            AnnotationKeys::Both
        } else {
            AnnotationKeys::Older
        };
        if behaviours::ANNOTATION_UNGATED.include(version) || is_on {
            AnnotationReads::Yes(keys)
        } else {
            AnnotationReads::GateClosed
        }
    }

    /// Whether the agents use an address family. In ipam `kubernetes` an agent waits until its node
    /// has a block of each family that is on (`pkg/option/config.go`, k8s-require-ipv4-pod-cidr and
    /// its IPv6 twin are forced on).
    pub fn use_of(&self, family: Family) -> FamilyUse {
        match self.setting(switch_key(family)) {
            Some(value) if is_true(value) => FamilyUse::Required,
            Some(_) => FamilyUse::Off,
            None => FamilyUse::Unspecified,
        }
    }

    /// A setting of the operator; `None` if it is not set or its value is not visible. Arguments
    /// override `cilium-config`.
    pub fn operator_setting(&self, key: &str) -> Option<&str> {
        let effective = self.written(key).effective();
        effective.filter(|text| !setting_key::is_reference(text))
    }

    /// A setting of the operator, where it is written.
    pub(super) fn written(&self, key: &str) -> Written<'_> {
        setting_key::assert_known(key);
        let [config, argument] = [&self.settings, &self.operator_arguments]
            .map(|texts| texts.as_ref()?.get(key).map(String::as_str));
        let is_variable = self.operator_variables.contains(key);
        Written {
            config,
            variable: argument.filter(|_| is_variable),
            argument: argument.filter(|_| !is_variable),
        }
    }

    /// Why Cilium would ignore a setting of a `CiliumNodeConfig` (`pkg/option/resolver/resolver.go`
    /// @ 1.19).
    pub fn overriding_is_off(&self, key: &str) -> Option<String> {
        let list = |name: &str| -> Vec<&str> {
            let text = self.resolver_arguments.get(name).map_or("", String::as_str);
            text.split(',')
                .map(str::trim)
                .filter(|entry| !entry.is_empty())
                .collect()
        };
        let (allowed, denied, sources) = (
            list("allow-config-keys"),
            list("deny-config-keys"),
            list("source"),
        );
        if !sources.is_empty()
            && !sources
                .iter()
                .any(|source| source.starts_with("cilium-node-config"))
        {
            return Some("Cilium's config sources do not include CiliumNodeConfigs".to_owned());
        }
        let is_denied = if allowed.is_empty() {
            denied.contains(&key)
        } else {
            !allowed.contains(&key)
        };
        is_denied.then(|| format!("Cilium's settings do not allow {key} in a CiliumNodeConfig"))
    }

    fn setting(&self, key: &str) -> Option<&str> {
        setting_key::assert_known(key);
        let of_config = || self.settings.as_ref()?.get(key);
        let argument = self.agent_argument(key);
        argument.or_else(of_config).map(String::as_str)
    }

    /// The release of the oldest operator; `None` if that of one is unknown.
    pub fn oldest_operator(&self) -> Option<CiliumVersion> {
        self.operator_versions.first().copied().flatten()
    }

    pub fn agent_argument(&self, key: &str) -> Option<&String> {
        self.agent_arguments.as_ref()?.get(key)
    }
}

/// Whether an option of Cilium is on.
pub(crate) fn is_true(text: &str) -> bool {
    go::boolean(text) == Some(true)
}

impl Setting<'_> {
    /// Whether a switch is on.
    pub fn is_on(&self) -> bool {
        is_true(self.value)
    }
}

/// `quay.io/cilium/cilium:v1.19.3@sha256:…`; a digest alone tells nothing.
pub(super) fn version_of_image(image: &str) -> Option<CiliumVersion> {
    let without_digest = image.split('@').next()?;
    let last = without_digest.rsplit('/').next()?;
    plausible(last.split_once(':')?.1.parse().ok()?)
}

/// `cilium-1.20.2`.
pub(super) fn version_of_chart(label: &str) -> Option<CiliumVersion> {
    plausible(label.strip_prefix("cilium-")?.parse().ok()?)
}

/// A tag such as `2024.5.1` is a vendor's date, not a release of Cilium.
fn plausible(version: CiliumVersion) -> Option<CiliumVersion> {
    (version.major == 1 && (7..100).contains(&version.minor)).then_some(version)
}

/// `pkg/k8s/apis/cilium.io/register.go`, CustomResourceDefinitionSchemaVersion of each minor
/// release.
pub(super) fn version_of_schema(label: &str) -> Option<CiliumVersion> {
    let schema: CiliumVersion = label.parse().ok()?;
    let minor = match (schema.minor, schema.patch) {
        (24, _) => 11,
        (25, _) => 12,
        // 1.26.7 and 1.26.8 belong to 1.13, 1.26.10 already to 1.14.
        (26, Some(patch)) if patch < 10 => 13,
        (26 | 27, _) => 14,
        // 1.33 is that of 1.20. Later ones belong to later releases, none of which is known.
        (later @ 28..=99, _) => later - 13,
        _ => return None,
    };
    Some(CiliumVersion::minor(minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(version: &str, annotate: Option<&str>) -> AnnotationReads {
        let settings = annotate.map(|value| ("annotate-k8s-node".to_owned(), value.to_owned()));
        let version = version
            .parse()
            .ok()
            .map(|version| (version, Evidence::ImageTag));
        Cilium {
            version,
            settings: Some(settings.into_iter().collect()),
            ..Cilium::default()
        }
        .annotation_reads(annotate)
    }

    #[test]
    fn the_gate_by_version() {
        use AnnotationKeys::{Both, Older};
        use AnnotationReads::{GateClosed, VersionUnknown, Yes};
        let cases = [
            ("1.11.9", None, Yes(Older)),
            ("1.11.9", Some("false"), Yes(Older)),
            ("1.12.4", None, Yes(Older)),
            ("1.12.6", None, GateClosed),
            ("1.12", None, GateClosed),
            ("1.12.19", Some("true"), Yes(Older)),
            ("1.13.0", None, GateClosed),
            ("1.19.3", Some("false"), GateClosed),
            ("1.19.3", Some("true"), Yes(Both)),
            ("none", None, VersionUnknown),
            ("none", Some("true"), Yes(Both)),
        ];
        for (version, annotate, expected) in cases {
            assert_eq!(reads(version, annotate), expected, "{version} {annotate:?}");
        }
    }

    #[test]
    fn versions_from_evidence() {
        let text =
            |version: Option<CiliumVersion>| version.map(|v| v.to_string()).unwrap_or_default();
        assert_eq!(
            text(version_of_image("quay.io/cilium/cilium:v1.19.3@sha256:00")),
            "1.19.3"
        );
        assert_eq!(
            text(version_of_image("registry:5000/mirror/cilium@sha256:00")),
            ""
        );
        assert_eq!(text(version_of_image("mirror/cilium:2024.5.1")), "");
        assert_eq!(text(version_of_chart("cilium-1.20.2")), "1.20.2");
        let schemas = [
            ("1.24.4", "1.11"),
            ("1.26.8", "1.13"),
            ("1.26.10", "1.14"),
            ("1.28.3", "1.15"),
            ("1.32.1", "1.19"),
            ("1.33.0", "1.20"),
            ("1.34.2", "1.21"),
            ("1.100.0", ""),
        ];
        for (label, expected) in schemas {
            assert_eq!(text(version_of_schema(label)), expected, "{label}");
        }
    }
}
