#!/usr/bin/env bash
# exchange.sh CACHE: two FRR routers in network namespaces of their own. One announces what stands on standard input, a line
# `PREFIX NEXT_HOP` each; the other one hears it, and its `show bgp ipv4 unicast json` is printed. Everything ends with this script.
# Exits with 75 where the kernel gives no namespaces or no overlay.
set -euo pipefail
root=$1/root
if [ "${2:-}" != inside ]; then
  unshare --map-root-user --net --mount --pid --fork --kill-child true || exit 75
  exec unshare --map-root-user --net --mount --pid --fork --kill-child "$0" "$1" inside
fi

# A writable root over the unpacked one, so that two runs at once do not meet.
work=$(mktemp -d)
mount --no-mtab -t tmpfs tmpfs "$work"
mkdir -p "$work"/{upper,work,root}
mount --no-mtab -t overlay overlay -o "lowerdir=$root,upperdir=$work/upper,workdir=$work/work" "$work/root" || exit 75
mount --no-mtab -t proc proc "$work/root/proc"
for device in null zero random urandom; do : > "$work/root/dev/$device"; mount --no-mtab --bind "/dev/$device" "$work/root/dev/$device"; done

{
  echo "log file /tmp/speaker.log"
  echo "router bgp 65001"
  echo " bgp router-id 192.0.2.253"
  echo " no bgp ebgp-requires-policy"
  echo " no bgp network import-check"
  echo " neighbor 192.0.2.254 remote-as 65000"
  echo " address-family ipv4 unicast"
  number=0 maps=""
  while read -r prefix hop; do
    number=$((number + 1))
    echo "  network $prefix"
    maps+=$(printf '\nip prefix-list p%s permit %s\nroute-map hops permit %s\n match ip address prefix-list p%s\n set ip next-hop %s\nexit' \
      "$number" "$prefix" "$number" "$number" "$hop")
  done
  echo "  neighbor 192.0.2.254 route-map hops out"
  echo " exit-address-family"
  echo "exit"
  echo "$maps"
} > "$work/root/tmp/speaker.conf"
announced=$(grep -c '^  network ' "$work/root/tmp/speaker.conf")
cat > "$work/root/tmp/listener.conf" <<'CONF'
log file /tmp/listener.log
router bgp 65000
 bgp router-id 192.0.2.254
 no bgp ebgp-requires-policy
 neighbor 192.0.2.253 remote-as 65001
exit
CONF

chroot "$work/root" /bin/bash -euo pipefail -s "$announced" <<'INSIDE'
announced=$1
start() { # NAME
  mkdir -p "/run/$1"
  /usr/lib/frr/bgpd -d -n -Z -S -u root -g root -f "/tmp/$1.conf" -i "/run/$1/pid" --vty_socket "/run/$1" -A 127.0.0.1 -P 0
}
export -f start
ip link set lo up
unshare --net sleep infinity & other=$!
# Its namespace is there when it differs from ours.
until [ "$(readlink "/proc/$other/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do :; done
ip link add here type veth peer name there netns "$other"
ip address add 192.0.2.254/24 dev here
ip link set here up
nsenter --target "$other" --net bash -euc 'ip link set lo up; ip address add 192.0.2.253/24 dev there; ip link set there up; start speaker' >&2
start listener >&2
for attempt in $(seq 60); do
  json=$(vtysh --vty_socket /run/listener -d bgpd -c 'show bgp ipv4 unicast json' 2>/tmp/vtysh.err || true)
  held=$(grep -c '"bestpath":true' <<< "$json" || true)
  [ "$held" -lt "$announced" ] || break
  sleep 0.1
done
echo "$json"
[ "$held" -ge "$announced" ] || { echo "only $held of $announced routes arrived" >&2; cat /tmp/*.log /tmp/vtysh.err >&2; exit 1; }
INSIDE
