//! Keys of Cilium's settings that are read. `cilium-config`, `CiliumNodeConfig`s and arguments of
//! containers share them.
//!
//! This is the only list: `slim` keeps these settings and no others, and the functions
//! that look a setting up accept no other key in debug builds.

macro_rules! setting_keys {
    ($($name:ident = $key:literal;)+) => {
        $(#[doc = concat!("`", $key, "`")] pub const $name: &str = $key;)+

        /// Every key that is read from `cilium-config`.
        pub const ALL: &[&str] = &[$($name),+];
    };
}

setting_keys! {
    ANNOTATE_NODE = "annotate-k8s-node";
    AUTO_DIRECT_NODE_ROUTES = "auto-direct-node-routes";
    BGP_ANNOUNCE_LB_IP = "bgp-announce-lb-ip";
    BGP_ANNOUNCE_POD_CIDR = "bgp-announce-pod-cidr";
    CLUSTER_POOL_IPV4_CIDR = "cluster-pool-ipv4-cidr";
    CLUSTER_POOL_IPV4_MASK_SIZE = "cluster-pool-ipv4-mask-size";
    CLUSTER_POOL_IPV6_CIDR = "cluster-pool-ipv6-cidr";
    CLUSTER_POOL_IPV6_MASK_SIZE = "cluster-pool-ipv6-mask-size";
    DEFAULT_LB_SERVICE_IPAM = "default-lb-service-ipam";
    DEFAULT_POOL = "ipam-default-ip-pool";
    DIRECT_ROUTING_SKIP_UNREACHABLE = "direct-routing-skip-unreachable";
    ENABLE_BGP_CONTROL_PLANE = "enable-bgp-control-plane";
    ENABLE_ENDPOINT_ROUTES = "enable-endpoint-routes";
    ENABLE_IPV4 = "enable-ipv4";
    ENABLE_IPV4_MASQUERADE = "enable-ipv4-masquerade";
    ENABLE_IPV6 = "enable-ipv6";
    ENABLE_IPV6_MASQUERADE = "enable-ipv6-masquerade";
    ENABLE_IP_MASQ_AGENT = "enable-ip-masq-agent";
    ENABLE_L2_ANNOUNCEMENTS = "enable-l2-announcements";
    ENABLE_LB_IPAM = "enable-lb-ipam";
    IPAM = "ipam";
    IPV4_NATIVE_ROUTING_CIDR = "ipv4-native-routing-cidr";
    IPV4_RANGE = "ipv4-range";
    IPV6_NATIVE_ROUTING_CIDR = "ipv6-native-routing-cidr";
    IPV6_RANGE = "ipv6-range";
    PROTOCOL_DIFFERENTIATION = "bpf-lb-proto-diff";
    ROUTING_MODE = "routing-mode";
    TUNNEL = "tunnel";
}

/// Arguments that are read and are no settings: those of the step that merges the settings.
pub(super) const ARGUMENTS_ONLY: [&str; 3] = ["allow-config-keys", "deny-config-keys", "source"];

/// The key that an environment variable of a container sets: `CILIUM_ENABLE_IPV4` for `enable-ipv4`
/// (`getEnvName` of cilium/hive, with the prefix of `pkg/hive/hive.go` @ Cilium 1.15.19, 1.17.6).
pub(super) fn of_variable(name: &str) -> Option<&'static str> {
    let key = name.strip_prefix("CILIUM_")?;
    let is_same = |known: &&str| known.replace('-', "_").to_uppercase() == key;
    ALL.iter().copied().find(is_same)
}

/// Panics in debug builds if `key` is not on the list, and so would be missing in a snapshot.
pub(super) fn assert_known(key: &str) {
    debug_assert!(
        ALL.contains(&key),
        "setting `{key}` is missing in setting_key.rs"
    );
}
