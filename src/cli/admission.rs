//! The admission policies that limit what an account may change, as YAML for `kubectl apply`. The
//! chart installs the same policies for the operator. It never reads a cluster.

use super::roles::ServiceAccount;

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
