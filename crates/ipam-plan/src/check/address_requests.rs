//! What Services and pools ask of LB-IPAM in vain: entries that it does not read, addresses of a family
//! that the Service does not have, and CIDRs of which it gives no address.

use std::net::IpAddr;

use crate::plan::Outlook;
use ipam_cilium::lbipam::{
    AddressPool, LbRules, LbService, Pending, SPEC_REQUEST, ServingState, WrittenRequest,
};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, ObjectRef, Rule, Severity, count};
use ipam_core::net::{Address, Family};
use ipam_core::text::joined;

pub(super) fn of_cluster(observed: &Observed, outlook: &Outlook<'_>) -> Vec<Finding> {
    if outlook.pools.is_empty() {
        return Vec::new();
    }
    let served = observed.services.values();
    let served: Vec<&LbService> = served.filter(|one| outlook.rules.serves(one)).collect();
    let unread = served.iter().filter_map(|one| unread(one, &outlook.rules));
    let families = served
        .iter()
        .filter_map(|one| of_another_family(one, &outlook.rules));
    let pools = outlook
        .pools
        .iter()
        .filter_map(|pool| of_tiny_ranges(pool, outlook));
    unread.chain(families).chain(pools).collect()
}

/// Why LB-IPAM does not find the address of an entry.
pub fn unread_request(request: WrittenRequest<'_>) -> Option<String> {
    let WrittenRequest { field, text } = request;
    let text = text.escape_debug();
    match request.address() {
        None => Some(format!(
            "`{text}` in {field} is not an IP address: Cilium ignores it"
        )),
        Some(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => Some(format!(
            "`{text}` in {field} is IPv4-mapped: Cilium takes it for IPv6, and no pool has it"
        )),
        Some(_) => None,
    }
}

/// The address that was probably meant.
fn meant(text: &str) -> Option<IpAddr> {
    let bare = text.split(['/', '%']).next().unwrap_or(text);
    let bare =
        bare.trim_matches(|c: char| matches!(c, '[' | ']' | '"' | '\'') || c.is_whitespace());
    bare.parse::<Address>().ok().map(IpAddr::from)
}

fn unread(service: &LbService, rules: &LbRules) -> Option<Finding> {
    let requests = || service.written_requests(rules);
    let unread = requests().filter_map(|one| Some((one, unread_request(one)?)));
    let (unread, why): (Vec<WrittenRequest<'_>>, Vec<String>) = unread.unzip();
    let (first, _) = unread.split_first()?;
    let causes = match service.requested(rules).is_empty() {
        true => "the Service gets any address of the pools that select it",
        false => "the Service gets only the other addresses that it requests",
    };
    let help = match meant(first.text) {
        Some(address) => format!("write {address}"),
        None if first.field == SPEC_REQUEST => "write one IP address".to_owned(),
        None => "write one IP address, or several separated by commas".to_owned(),
    };
    let message = format!(
        "Service `{}` requests an address that Cilium cannot give: {}",
        service.name.to_string().escape_debug(),
        joined(why, "; ")
    );
    let finding = Finding::new(Severity::Warning, Rule("address-request-not-read"), message);
    Some(
        finding
            .about(ObjectRef::service(&service.name))
            .causes(causes)
            .help(help),
    )
}

/// LB-IPAM gives a requested address whatever the families of the Service are.
fn of_another_family(service: &LbService, rules: &LbRules) -> Option<Finding> {
    let [family] = service.families[..] else {
        return None;
    };
    let requested = service.requested(rules).into_iter();
    let other = requested.filter(|one| Family::of(*one) != family && one.to_canonical() == *one);
    let other: Vec<IpAddr> = other.collect();
    let first = other.first()?;
    let message = format!(
        "Service `{}` requests {}, and its `spec.ipFamilies` has only {family}",
        service.name.to_string().escape_debug(),
        joined(&other, " ")
    );
    let finding = Finding::new(
        Severity::Warning,
        Rule("address-of-another-family"),
        message,
    );
    let finding = finding.about(ObjectRef::service(&service.name)).causes(format!(
        "Cilium gives such an address, and no Pod answers there: the Service has endpoints of {family} only"
    ));
    Some(finding.help(format!(
        "request an {family} address, or set `ipFamilyPolicy: PreferDualStack` and add {} to `ipFamilies`",
        Family::of(*first)
    )))
}

/// CIDRs of one or two addresses, which releases before 1.15 reserve.
fn of_tiny_ranges(pool: &AddressPool, outlook: &Outlook<'_>) -> Option<Finding> {
    let rules = &outlook.rules;
    let ranges = pool.ranges.iter();
    let given = ranges
        .clone()
        .filter(|range| rules.gives_nothing(pool.first_last, range));
    let tiny: Vec<String> = given.map(|range| range.range.to_string()).collect();
    if tiny.is_empty() || pool.state == ServingState::Disabled {
        return None;
    }
    let message = format!(
        "CiliumLoadBalancerIPPool `{}` gives no address of {}: Cilium {} reserves the first and the last address of every CIDR",
        pool.name.escape_debug(),
        joined(&tiny, " "),
        rules.version()
    );
    let is_full =
        |pending: &Pending| matches!(pending, Pending::OutOfAddresses(_) | Pending::Reserved(_));
    let waiting = outlook.next().outcomes.iter();
    let waiting = waiting.filter(|(_, outcome)| outcome.pending.iter().any(is_full));
    let is_selected = |name| {
        outlook
            .service(name)
            .is_some_and(|one| pool.selects(&one.labels))
    };
    let waiting = waiting.filter(|(name, _)| is_selected(name)).count();
    let seen = (waiting > 0).then(|| {
        format!(
            "{} of the pool without an address",
            count(waiting, "Service")
        )
    });
    let finding = Finding::new(Severity::Warning, Rule("pool-without-addresses"), message);
    let finding = finding
        .about(ObjectRef::address_pool(&pool.name))
        .seen(seen);
    let finding = finding.causes("a Service that needs such an address waits");
    Some(finding.help("upgrade Cilium to 1.15 or later, or write a wider CIDR: Services get all but its first and last address"))
}
