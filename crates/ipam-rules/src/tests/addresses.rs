//! Functions of addresses mean what they mean in Kubernetes.

use super::*;

/// Checked with `k8s.io/apiserver` 0.36, whose libraries give the same truth for each.
#[test]
fn addresses_and_cidrs_mean_what_they_mean_in_kubernetes() {
    let input = changes(1);
    for source in [
        "isIP('10.0.0.1') && isIP('::1') && isIP('2001:DB8::1')",
        "!isIP('10.0.0.256') && !isIP(':::1') && !isIP('') && !isIP(' 10.0.0.1')",
        "!isIP('010.0.0.1') && !isIP('10.0.0.0/24') && !isIP('fe80::1%eth0')",
        "!isIP('::ffff:10.0.0.1') && !isIP('::ffff:a00:1') && isIP('::10.0.0.1')",
        "isCIDR('10.0.0.0/8') && isCIDR('10.0.0.1/8') && isCIDR('::/0') && isCIDR('::1/128')",
        "!isCIDR('10.0.0.0/33') && !isCIDR('::1/129') && !isCIDR('10.0.0.0')",
        "!isCIDR('10.0.0.0/08') && !isCIDR('10.0.0.0/+8') && !isCIDR('10.0.0.0/')",
        "!isCIDR('::ffff:10.0.0.0/104') && !isCIDR('10.0.0.0/8/8')",
        "ip('10.0.0.1') == ip('10.0.0.1') && ip('2001:DB8:0::1') == ip('2001:db8::1')",
        "ip('10.0.0.1') != ip('10.0.0.2')",
        "ip('10.0.0.1').family() == 4 && ip('fd00::1').family() == 6",
        "ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')",
        "!ip.isCanonical('2001:db8::0:1') && ip.isCanonical('127.0.0.1')",
        "string(ip('2001:DB8::1')) == '2001:db8::1' && string(cidr('10.0.0.1/8')) == '10.0.0.1/8'",
        "ip('0.0.0.0').isUnspecified() && ip('::').isUnspecified() && !ip('::1').isUnspecified()",
        "ip('127.9.9.9').isLoopback() && ip('::1').isLoopback() && !ip('10.0.0.1').isLoopback()",
        "ip('224.0.0.9').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast()",
        "ip('ff02::1').isLinkLocalMulticast() && ip('ff32::1').isLinkLocalMulticast()",
        "!ip('ff05::1').isLinkLocalMulticast()",
        "ip('169.254.1.1').isLinkLocalUnicast() && ip('febf::1').isLinkLocalUnicast()",
        "!ip('fec0::1').isLinkLocalUnicast()",
        "ip('10.0.0.1').isGlobalUnicast() && ip('fd00::1').isGlobalUnicast()",
        "!ip('255.255.255.255').isGlobalUnicast() && !ip('0.0.0.0').isGlobalUnicast()",
        "!ip('127.0.0.1').isGlobalUnicast() && !ip('224.0.1.1').isGlobalUnicast()",
        "!ip('ff05::1').isGlobalUnicast() && !ip('fe80::1').isGlobalUnicast()",
        "cidr('10.20.0.0/16').containsIP('10.20.255.255') && !cidr('10.20.0.0/16').containsIP('10.21.0.0')",
        "cidr('10.20.9.9/16').containsIP(ip('10.20.0.1')) && cidr('0.0.0.0/0').containsIP('1.2.3.4')",
        "!cidr('::/0').containsIP('10.0.0.1') && !cidr('0.0.0.0/0').containsIP('::1')",
        "cidr('fd00::/8').containsIP('fdff::1') && cidr('fd00::1/128').containsIP('fd00::1')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR('10.0.0.0/8')",
        "cidr('10.0.0.0/8').containsCIDR(cidr('10.0.0.0/8')) && !cidr('10.0.0.0/8').containsCIDR('fd00::/64')",
        "cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('::1/64').ip().family() == 6",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8') != cidr('10.0.0.0/8')",
        "cidr('fd00::1/64').masked() == cidr('fd00::/64') && cidr('::1/0').masked() == cidr('::/0')",
        "cidr('10.0.0.0/8').prefixLength() == 8 && cidr('::/128').prefixLength() == 128",
        "['10.0.0.1'].all(a, ip(a) in [ip('10.0.0.1')])",
        "type(ip('::1')) == type(ip('10.0.0.1')) && type(ip('::1')) != type(cidr('::/0'))",
        // The names stay free for variables.
        "plan.changes.all(ip, ip.after.all(cidr, cidr('10.0.0.0/8').containsCIDR(cidr)))",
        "[1].all(ip, ip.isCanonical('::1'))",
    ] {
        assert_eq!(of(source, &input), Verdict::Holds, "{source}");
    }
}

#[test]
fn what_is_no_address_gives_no_result() {
    let input = changes(1);
    for (source, part) in [
        (
            "ip('10.0.0.256') == ip('::1')",
            "`ip`: the text is not an address",
        ),
        (
            "cidr('10.0.0.0').prefixLength() == 8",
            "`cidr`: the text is not a CIDR",
        ),
        ("ip.isCanonical('x')", "`ip`: the text is not an address"),
        (
            "cidr('10.0.0.0/8').containsIP('x')",
            "`ip`: the text is not an address",
        ),
        (
            "cidr('10.0.0.0/8').containsCIDR('10.0.0.1')",
            "`cidr`: the text is not a CIDR",
        ),
        ("ip(1) == ip('::1')", "int"),
        ("cidr('10.0.0.0/8').family() == 4", "net.CIDR"),
        ("ip('::1') < ip('::2')", "(net.IP, net.IP)"),
        ("ip('::1')", "of type `net.IP`"),
    ] {
        let Verdict::Failed(failure) = of(source, &input) else {
            panic!("{source} has a result");
        };
        let text = failure.to_string();
        assert!(text.contains(part), "{source}: {text}");
    }
    for (source, name) in [
        ("ip.isCanonica('::1')", "function `isCanonica`"),
        ("plan.isCanonical('::1')", "function `isCanonical`"),
        ("ip == '::1'", "variable `ip`"),
    ] {
        let error = compile(source).unwrap_err();
        assert_eq!(error.to_string(), format!("there is no {name}"), "{source}");
    }
}

/// A long text is counted before it is read.
#[test]
fn the_length_of_an_address_counts() {
    let input = json!({"plan": "1".repeat(320_000), "pools": [], "nodes": {}});
    let read = "!isIP(plan)";
    assert_eq!(
        within(10_000, read, &input),
        Verdict::Failed(Failure::TooCostly)
    );
    assert_eq!(within(20_000, read, &input), Verdict::Holds);
}
