"""Homes behind routers that translate addresses: network namespaces, with nftables in the routers.

    inside 192.168.1.0/24: machine -- router -- outside 10.83.0.0/24: the coordinator's machine

Every home has the same private network, as homes do.
"""

import pathlib
import subprocess
import tempfile

import machines

NETWORK = machines.NETWORK

MASKED = 'oifname "wan" masquerade;'
TO_INSIDE = "dnat ip to 192.168.1.2;"
# What a router does: the source of packets that leave, the destination of those that come and
# belong to no connection, and what it forwards of these. Replies always pass.
KINDS = {
    # One outside port for an inside port, and everything that comes there passes.
    "full cone": (MASKED, f'iifname "wan" meta l4proto tcp {TO_INSIDE}', "ct status dnat accept;"),
    # The same from addresses to which something was sent.
    "address-restricted": (MASKED, f'iifname "wan" meta l4proto tcp ip saddr @heard {TO_INSIDE}',
                           'iifname "lan" add @heard { ip daddr }; ct status dnat accept;'),
    # Only replies: a Linux router.
    "port-restricted": (MASKED, "", ""),
    # Likewise, and each connection gets an outside port of its own.
    "symmetric": ('oifname "wan" masquerade random,fully-random;', "", ""),
}
# A Linux router that forwards ports to machines that ask for them: by NAT-PMP and UPnP, or by one.
ASKED = {"asked": ("yes", "yes"), "asked by NAT-PMP": ("yes", "no"), "asked by UPnP": ("no", "yes")}
for kind in ASKED:
    KINDS[kind] = (MASKED, 'iifname "wan" jump mapped_in;', "ct status dnat accept;")
# Such a router refuses to work where its own outside address is private: a test takes this network.
PUBLIC = "11.83.0."
DOUBLE = "double"  # port-restricted, behind a provider's router that is the same
NONE = "none"


class Homes(machines.Wire):
    """The first machine is outside; each of `inside`, a name with the kind of its router, is alone
    behind that."""

    def __init__(self, outside, inside, refusing=()):
        """The routers of `refusing` answer what comes from outside and belongs to no connection with
        a reset. Others drop it, as home routers do."""
        self.inside = inside
        self.refusing = refusing
        self.daemons = []
        super().__init__(outside)

    def _make(self, outside):
        plain = [name for name, kind in self.inside.items() if kind == NONE]
        super()._make((*outside, *plain))
        number = 1 + len(plain)
        for name, kind in self.inside.items():
            if kind != NONE:
                number += 1
                self._home(number, name, kind)

    def _home(self, number, machine, kind):
        space = self._namespace(machine)
        before = self._router(machine + "-router", machine, f"{NETWORK}{number}/24", kind)
        if kind == DOUBLE:
            # RFC 6598, the addresses between a provider's router and those of homes.
            machines.ip("-n", before, "addr", "add", "100.64.0.1/24", "dev", "lan")
            inner = self._namespace(machine + "-inner")
            machines.ip("-n", before, "link", "set", "far", "name", "wan", "netns", inner)
            self._up(inner, "wan", "100.64.0.2/24")
            machines.ip("-n", inner, "route", "add", "default", "via", "100.64.0.1")
            machines.ip("-n", inner, "link", "add", "lan", "type", "veth", "peer", "name", "far")
            self._translate(machine + "-inner", "port-restricted")
            before = inner
        self._up(before, "lan", "192.168.1.1/24")
        machines.ip("-n", before, "link", "set", "far", "name", "eth0", "netns", space)
        self._up(space, "eth0", "192.168.1.2/24")
        machines.ip("-n", space, "route", "add", "default", "via", "192.168.1.1")
        if kind in ASKED:
            self._forward_when_asked(machine + "-router", *ASKED[kind])

    def _router(self, name, machine, address, kind):
        router = self._namespace(name)
        hub = self.prefix + "hub"
        machines.ip("-n", hub, "link", "add", machine, "type", "veth", "peer", "name", "wan",
                    "netns", router)
        machines.ip("-n", hub, "link", "set", machine, "master", "wire", "up")
        machines.ip("-n", router, "link", "add", "lan", "type", "veth", "peer", "name", "far")
        self._up(router, "wan", address)
        machines.ip("-n", router, "link", "set", "lan", "up")
        self._translate(name, "port-restricted" if kind == DOUBLE else kind)
        return router

    def _up(self, space, device, address):
        machines.ip("-n", space, "addr", "add", address, "dev", device)
        machines.ip("-n", space, "link", "set", device, "up")
        machines.ip("-n", space, "link", "set", "lo", "up")

    def _translate(self, router, kind):
        leaves, comes, passes = KINDS[kind]
        refused = ""
        if router.rsplit("-", 1)[0] in self.refusing:
            refused = 'iifname "wan" meta l4proto tcp reject with tcp reset;'
        rules = f"""
            table inet home {{
              chain mapped_in {{ }}
              chain mapped_out {{ }}
              chain mapped_forward {{ }}
              set heard {{ type ipv4_addr; flags dynamic; size 256; }}
              chain leaves {{ type nat hook postrouting priority 100; {leaves} }}
              chain comes {{ type nat hook prerouting priority -100; {comes} }}
              chain through {{ type filter hook forward priority 0; policy drop;
                ct state established,related accept; {passes} iifname "lan" accept; }}
              chain to_router {{ type filter hook input priority 0; policy drop;
                ct state established,related accept; iifname "lan" accept; {refused} }}
            }}"""
        subprocess.run(self.words(router, "sysctl", "-qw", "net.ipv4.ip_forward=1"), check=True)
        made = subprocess.run(self.words(router, "nft", "-f", "-"), input=rules, text=True,
                              capture_output=True)
        if made.returncode != 0:
            raise OSError(f"nft: {made.stderr.strip()}")

    def _forward_when_asked(self, router, nat_pmp, upnp):
        folder = tempfile.TemporaryDirectory()
        config = pathlib.Path(folder.name, "conf")
        config.write_text(f"""
ext_ifname=wan
listening_ip=lan
enable_natpmp={nat_pmp}
enable_upnp={upnp}
secure_mode=yes
system_uptime=yes
uuid=6f0b1c1e-0d7c-4f6e-9d0f-5a1f0a9d83{len(self.daemons):02}
upnp_table_name=home
upnp_nat_table_name=home
upnp_forward_chain=mapped_forward
upnp_nat_chain=mapped_in
upnp_nat_postrouting_chain=mapped_out
allow 1024-65535 192.168.1.0/24 1024-65535
deny 0-65535 0.0.0.0/0 0-65535
""")
        self.daemons.append((folder, subprocess.Popen(
            self.words(router, "miniupnpd", "-d", "-f", config, "-P", config.with_name("pid")),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)))

    def cut(self):
        for folder, process in self.daemons:
            process.kill()
            process.wait()
            folder.cleanup()
        self.daemons = []
        super().cut()
