# Builds an image with podman, changes a container of it, and prints its tree, the differences, and what is in an image of it.
set -eu
cat >Containerfile <<'END'
FROM scratch
COPY tree /
RUN echo new >/etc/new && rm /etc/one
RUN rm -r /etc/old && mkdir /etc/old && echo n >/etc/old/new && mv /etc/new /etc/newer
END
tree() {
    find . -printf '%P %y %m %U:%G %l\n' | grep -v -E '^(etc/(hosts|hostname|resolv.conf)|proc|sys|dev|run) ' | sort
}
podman build -q --isolation chroot --layers -t made . >/dev/null
container=$(podman create made sh)
mounted=$(podman mount "$container")
(
    cd "$mounted"
    echo changed >etc/two; rm etc/newer; mkdir added; echo added >added/file; mv var/lib/old var/lib/moved
    tree
)
podman diff "$container" | sort
podman umount "$container" >/dev/null
podman commit -q "$container" again >/dev/null
podman rm "$container" >/dev/null
(cd "$(podman image mount again)"; tree; find added etc/old var -type f | sort | xargs sha256sum)
podman image umount --all >/dev/null
