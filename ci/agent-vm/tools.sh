# shellcheck shell=bash disable=SC2034 # what is set here is used by the scripts that source it
# tools.sh: sourced, not run. What the other scripts share: the cache folder and how to call an unpacked tool.
[ "$(uname -m)" = x86_64 ] || { echo "agent-vm: only on x86_64" >&2; exit 75; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${1:-${AGENT_VM_CACHE:?first argument or AGENT_VM_CACHE: the cache folder}}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
tools=$cache/tools
guest=$cache/guest

# The tools bring their own libc, so that they run whatever the machine has installed; hence their own loader.
libraries=$tools/usr/lib/x86_64-linux-gnu
loader=("$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:$libraries/pulseaudio")

# The emulator and what every guest has: no graphics, a console on standard output, and an end instead of a reboot.
# `no_timer_check`: on a busy machine the emulated timer is late, and the kernel would give up at its start.
export QEMU_MODULE_DIR=$libraries/qemu
qemu=(nice -n 5 "${loader[@]}" "$tools/usr/bin/qemu-system-x86_64" -L "$tools/usr/share/qemu" -L "$tools/usr/share/seabios"
  -machine q35 -accel tcg,thread=multi,tb-size=512 -cpu max -display none -serial stdio -nodefaults -no-reboot
  -append "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off random.trust_cpu=on no_timer_check"
  -netdev user,id=net,ipv6=off -device virtio-net-pci,netdev=net,romfile= -device virtio-rng-pci)

# digest FILE..: one word that changes when one of the files does
digest() { cat "$@" | sha256sum | cut -d' ' -f1; }
