# Builds an image upon another with buildah, and prints what is in it.
set -eu
container=$(buildah from scratch)
buildah copy -q "$container" tree / >/dev/null
buildah run --isolation chroot "$container" sh -c '
    set -e
    echo new >/etc/new; chmod 640 /etc/two; chown 7:8 /etc/two; ln /etc/new /etc/new2; ln -s new /etc/symlink; mkfifo /etc/fifo
    mv /var/lib/old /var/lib/moved; echo more >>/var/lib/large; mkdir -m 1777 /scratch; sync'
buildah commit -q "$container" first >/dev/null
buildah rm "$container" >/dev/null
container=$(buildah from first)
buildah run --isolation chroot "$container" sh -c '
    set -e
    rm /etc/one; rm -r /var/lib/moved; mkdir /var/lib/moved; echo replaced >/var/lib/moved/new; mv /etc/conf.d /etc/renamed
    touch -d 2021-01-01 /etc/renamed; rm /var/lib/large; mkdir /var/lib/large; echo changed >/etc/linked; rm -r /scratch
    echo file >/scratch; chmod 4755 /etc/two; mv /etc/symlink /etc/symlink2'
buildah commit -q "$container" second >/dev/null
buildah rm "$container" >/dev/null

container=$(buildah from second)
mounted=$(buildah mount "$container")
(
    cd "$mounted"
    # What buildah itself makes in each container is left out.
    find . -mindepth 1 \( -path ./dev -o -path ./proc -o -path ./sys -o -path ./run -o -name host\* -o -name resolv.conf \) -prune \
        -o -printf '%P %y %m %U:%G %l\n' | sort
    find etc var scratch -type f ! -name host\* ! -name resolv.conf | sort | xargs sha256sum
    getfattr -R -h -d -m - .
)
buildah umount "$container" >/dev/null
buildah rm "$container" >/dev/null

# No layer of the image has an attribute of the union.
buildah push -q second oci:layout:image
for blob in layout/blobs/sha256/*; do
    tar -tzf "$blob" >/dev/null 2>&1 || continue
    mkdir layer
    tar --xattrs --xattrs-include='*' -xzpf "$blob" -C layer
    getfattr -R -h -d -m - layer
    rm -rf layer
done
