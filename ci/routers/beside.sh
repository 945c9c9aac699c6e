#!/usr/bin/env bash
# beside.sh CACHE RUN COMMAND..: an FRR router at 192.0.2.254 on a tap, `tap0`, in a network namespace of its own, and COMMAND beside it.
# It peers with AS 65001 at 192.0.2.1. Everything ends with COMMAND.
#   RUN/api.port   the port of loopback that COMMAND reaches as it would outside      RUN/api.sock   who listens there for it
#   RUN/rib.json   what the router last held, as `show bgp ipv4 unicast json` prints it, once it held anything
# Exits with 75 where the kernel gives no namespaces, no overlay or no tap.
set -euo pipefail
if [ "${INSIDE:-}" != yes ]; then
  unshare --map-root-user --net --mount --pid --fork --kill-child true || exit 75
  INSIDE=yes exec unshare --map-root-user --net --mount --pid --fork --kill-child "$0" "$@"
fi
root=$1/root run=$2
shift 2

work=$(mktemp -d)
mount --no-mtab -t tmpfs tmpfs "$work"
mkdir -p "$work"/{upper,work,root}
mount --no-mtab -t overlay overlay -o "lowerdir=$root,upperdir=$work/upper,workdir=$work/work" "$work/root" || exit 75
mount --no-mtab -t proc proc "$work/root/proc"
mkdir -p "$work/root/dev/net" "$work/root/mnt"
for device in null zero random urandom net/tun; do
  : > "$work/root/dev/$device"
  mount --no-mtab --bind "/dev/$device" "$work/root/dev/$device"
done
mount --no-mtab --bind "$run" "$work/root/mnt"
cat > "$work/root/tmp/router.conf" <<'CONF'
log file /mnt/router.log
router bgp 65000
 bgp router-id 192.0.2.254
 no bgp ebgp-requires-policy
 neighbor 192.0.2.1 remote-as 65001
 neighbor 192.0.2.1 timers connect 2
exit
CONF

inside() { chroot "$work/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin "$@"; }
inside ip link set lo up
inside ip tuntap add dev tap0 mode tap || exit 75
inside ip address add 192.0.2.254/24 dev tap0
inside ip link set tap0 up
port=$(cat "$run/api.port")
inside socat "TCP-LISTEN:$port,bind=127.0.0.1,fork,reuseaddr" UNIX-CONNECT:/mnt/api.sock < /dev/null > /dev/null 2> "$run/socat.log" &
inside mkdir -p /run/router
inside /usr/lib/frr/bgpd -d -n -Z -S -u root -g root -f /tmp/router.conf -i /run/router/pid --vty_socket /run/router -A 127.0.0.1 -P 0 >&2
inside bash -c 'while sleep 1; do
  vtysh --vty_socket /run/router -d bgpd -c "show bgp ipv4 unicast json" > /mnt/rib.new 2> /mnt/vtysh.log || continue
  ! grep -q "\"bestpath\":true" /mnt/rib.new || mv /mnt/rib.new /mnt/rib.json
done' < /dev/null > /dev/null &
"$@" || exit $?
