//! A NIC on the PCI bus, in a guest of its own kernel: it comes back by itself when the namespace
//! that has it vanishes.

use serde_json::{Value, json};
use testbed::openstack::{DOMAIN, Internal, MEMBER_PASSWORD, MEMBER_PROJECT, MEMBER_USER, Options};
use testbed::{Guest, Initramfs, OpenStack, Setup, or_skip};

use crate::neutron::support::{addresses, fault, stack};
use crate::support::{Ran, node_program};

const MAC: &str = "fa:16:3e:00:00:51";
const PCI: &str = "0000:00:10.0";
const PLUGIN: &str = "/opt/cni/bin/cni-vm-nic";

#[test]
fn a_device_goes_to_a_pod_and_comes_back_even_when_the_pod_vanished() {
    let stack = or_skip!(stack(&Options {
        internal: Internal::Guest,
        ..Options::default()
    }));
    let network = stack.create_network("devices").unwrap();
    stack
        .create_subnet(&network, "10.77.0.0/24", &json!({}))
        .unwrap();
    let fixed = json!([{"ip_address": "10.77.0.7"}]);
    stack
        .create_port(&network, &json!({"mac_address": MAC, "fixed_ips": fixed}))
        .unwrap();
    let machine = or_skip!(Machine::new(&stack));
    machine.run("ip link set eth1 mtu 1400 up").expect(0);
    machine
        .run("ip address add 192.0.2.5/24 dev eth1")
        .expect(0);
    machine
        .run("ip route add 198.51.100.0/24 via 192.0.2.1")
        .expect(0);
    let before = machine.lasting();
    assert!(
        ["1400", "192.0.2.5/24", "198.51.100.0/24"]
            .iter()
            .all(|fact| before.contains(fact)),
        "{before}"
    );
    machine.add_pod("a");
    let refused = fault(&machine.plugin("any", "ADD", "a"));
    assert!(
        refused.0 == 11 && refused.1.contains("eth1 has an address"),
        "{refused:?}"
    );

    let result = machine.plugin("pci", "ADD", "a").expect(0).json();
    assert_eq!(
        (addresses(&result), &result["interfaces"][0]["pciID"]),
        (vec!["10.77.0.7/24".to_owned()], &json!(PCI))
    );
    assert_ne!(machine.lasting(), before);
    assert_eq!(
        machine
            .run("nsenter --net=/run/netns/a ping -c 1 -W 5 10.77.0.1")
            .code,
        0,
        "{}",
        machine.guest.console()
    );
    machine.plugin("pci", "CHECK", "a").expect(0);
    assert_eq!(machine.plugin("pci", "ADD", "a").expect(0).json(), result);
    machine.plugin("pci", "DEL", "a").expect(0);
    assert_eq!(machine.lasting(), before);

    machine.plugin("pci", "ADD", "a").expect(0);
    machine
        .run("nsenter --net=/run/netns/a ip link set eth0 down")
        .expect(0);
    machine.run("nsenter --net=/run/netns/a ip link set eth0 name mine address 02:00:00:00:00:77 mtu 1280").expect(0);
    machine.remove_pod("a");
    machine.plugin("pci", "DEL", "a").expect(0);
    assert_eq!(machine.lasting(), before, "{}", machine.guest.console());

    // No call reports that the Pod is gone. The next Pod still finds the NIC, once the kernel has
    // returned it.
    machine.add_pod("a");
    machine.plugin("pci", "ADD", "a").expect(0);
    machine.remove_pod("a");
    machine.add_pod("b");
    let is_given = (0..20).any(|_| machine.plugin("pci", "ADD", "b").code == 0);
    assert!(is_given, "{}", machine.guest.console());
    machine.plugin("pci", "DEL", "a").expect(0);
    machine.plugin("pci", "CHECK", "b").expect(0);
    machine.plugin("pci", "DEL", "b").expect(0);
    assert_eq!(machine.lasting(), before, "{}", machine.guest.console());
    a_device_without_a_driver(&machine);
}

/// The NIC is in its slot, but the Pod's link is gone.
fn a_device_without_a_driver(machine: &Machine) {
    machine.plugin("pci", "ADD", "b").expect(0);
    let drive = |verb: &str| {
        machine
            .run(&format!(
                "echo {PCI} > /sys/bus/pci/drivers/virtio-pci/{verb}"
            ))
            .expect(0)
    };
    drive("unbind");
    machine.plugin("pci", "DEL", "b").expect(0);
    drive("bind");
    machine.plugin("pci", "ADD", "b").expect(0);
    machine.plugin("pci", "DEL", "b").expect(0);
}

struct Machine {
    guest: Guest,
}

impl Machine {
    fn new(stack: &OpenStack) -> testbed::Result<Machine> {
        let configuration = |nic: Value| {
            let openstack = json!({
                "username": MEMBER_USER, "password": MEMBER_PASSWORD, "project": MEMBER_PROJECT, "domain": DOMAIN,
                "authUrl": stack.keystone_url_in_guest(),
            });
            let neutron = json!({"openstackConf": openstack, "interface": "internal"});
            json!({"cniVersion": "1.1.0", "name": "nics", "type": "cni-vm-nic", "nic": nic, "neutron": neutron})
                .to_string()
        };
        let files = Initramfs::default()
            .file(
                "/pci.json",
                0o600,
                configuration(json!({"pci": PCI, "takeConfigured": "restore"})),
            )
            .file(
                "/any.json",
                0o600,
                configuration(json!({"any": {"drivers": ["virtio_net"], "names": ["eth*"]}})),
            )
            .program(PLUGIN, node_program("cni-vm-nic"))
            .unwrap();
        let uuid = "0f1e2d3c-4b5a-4697-8877-665544332212".to_owned();
        let guest = Guest::start(&Setup {
            files,
            modules: Vec::new(),
            uuid,
            nics: vec![MAC.to_owned()],
        })?;
        Ok(Machine { guest })
    }

    fn run(&self, command: &str) -> Ran {
        let answer = self.guest.run(command).unwrap();
        Ran {
            code: answer.code,
            stdout: answer.stdout,
            stderr: answer.stderr,
        }
    }

    fn plugin(&self, configuration: &str, command: &str, pod: &str) -> Ran {
        let environment = format!(
            "CNI_COMMAND={command} CNI_CONTAINERID={pod} CNI_NETNS=/run/netns/{pod} CNI_IFNAME=eth0"
        );
        self.run(&format!(
            "{environment} CNI_PATH=/opt/cni/bin {PLUGIN} < /{configuration}.json"
        ))
    }

    fn add_pod(&self, pod: &str) {
        self.run(&format!("touch /run/netns/{pod}")).expect(0);
        self.run(&format!("unshare --net=/run/netns/{pod} ip link set lo up"))
            .expect(0);
    }

    /// Its network namespace goes without a call of the plugin.
    fn remove_pod(&self, pod: &str) {
        self.run(&format!("umount /run/netns/{pod} && rm /run/netns/{pod}"))
            .expect(0);
    }

    /// The state that must return; `Null` without the NIC.
    fn lasting(&self) -> String {
        let facts = "cat /sys/class/net/eth1/address /sys/class/net/eth1/mtu /sys/class/net/eth1/ifalias /sys/class/net/eth1/flags";
        let routes = "ip route | grep eth1; ip -o address show dev eth1 | grep -o 'inet .*'; ls /sys/class/net";
        self.run(&format!("{facts}; {routes}")).stdout
    }
}
