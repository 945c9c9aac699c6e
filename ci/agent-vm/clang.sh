#!/bin/bash
# clang.sh: stands before clang in the agent's PATH. The emulated processor compiles one of the agent's programs in a minute, the host in a second:
# sends the command and what it reads to the host, which runs the same clang, and prints the object.
[ "$1" != --version ] || exec /usr/bin/clang --version
folders=()
for word in "$@"; do
  # Folders inside of one that is there already come with it.
  [[ $word != -I* || $word == */bpf/include ]] || folders+=("${word#-I}")
done
sources=$(mktemp)
tar -C / -cf "$sources" "${folders[@]#/}"
exec 3<> "/dev/tcp/10.0.2.2/$(cat /run/input/compiler)" || exit 1
echo "$(stat -c %s "$sources") $*" >&3
cat "$sources" >&3
rm "$sources"
read -r code <&3 || exit 1
if [ "$code" = 0 ]; then exec cat <&3; fi
cat <&3 >&2
exit "$code"
