"""Measures the goals of several servers over one store (Spec/Nodes.md, section 9) that need running servers:

    goals.py PATH-OF-ANABRANCH PATH-OF-ANABRANCH-LAB [--scale PART] [GOAL…]

Starts PostgreSQL, which is durable, and servers on loopback, with folders of their own; all of it ends with the
program. Prints one line of JSON for each figure: the goal, what was measured, the bound, and whether it is met. Figures
of one server and of two follow each other, three times, and the medians are compared. --scale makes runs shorter, and
fewer: 1 is what the goals ask for. The exit status is 1 if a bound is missed. `scripts/nodes` runs it; `network` needs
root.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PROGRAMS = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
AS_USER = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
TICKS = os.sysconf("SC_CLK_TCK")


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, **options).stdout


class Postgres:
    """A server of PostgreSQL with a socket of its own, and another address if one is given."""

    def __init__(self, folder, settings=(), address="", port=5432):
        self.folder, self.address, self.port, self.count = folder, address, port, 0
        folder.mkdir()
        if AS_USER:
            shutil.chown(folder, "postgres")
        run(*AS_USER, PROGRAMS / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8",
            "--locale=C", "--no-sync")
        options = [f"listen_addresses={address}", f"port={port}", f"unix_socket_directories={folder}",
                   "max_connections=200", *settings]
        self.options = " ".join(f"-c {option}" for option in options)
        self.start()

    def control(self, *command):
        # What it starts keeps the output open.
        subprocess.run([*AS_USER, PROGRAMS / "pg_ctl", "-D", self.folder / "data", "-w", "-t", "60", *command],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self):
        self.control("-l", str(self.folder / "data" / "log"), "-o", self.options, "start")

    def crash(self):
        self.control("-m", "immediate", "stop")

    def sql(self, statement, database="postgres"):
        return run(PROGRAMS / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-p", self.port, "-U",
                   "postgres", "-d", database, "-c", statement).strip()

    def database(self):
        self.count += 1
        self.sql(f"CREATE DATABASE d{self.count} TEMPLATE template0")
        return f"d{self.count}"

    def url(self, database, user="postgres", parameters=""):
        return f"postgres://{user}@/{database}?host={self.folder}&port={self.port}{parameters}"


class Server:
    """One server over a database; `within` are words before its command."""

    count = 0

    def __init__(self, store, within=(), host="127.0.0.1", words=("--shared",)):
        Server.count += 1
        self.folder = WORK / f"server-{Server.count}"
        self.folder.mkdir()
        self.log = self.folder / "log"
        mode, environment = ["--dev"], dict(os.environ)
        if host != "127.0.0.1":
            mode = ["--insecure", "--rules", "everybody"]
            environment["ANABRANCH_USER_WITHOUT_TOKEN"] = "anybody"
        self.process = subprocess.Popen(
            [*within, ANABRANCH, "serve", *mode, "--data", str(self.folder / "data"), "--store", store, *words,
             "--listen", f"{host}:0"], stdout=subprocess.PIPE, stderr=self.log.open("w"), text=True,
            env=environment)
        line = self.process.stdout.readline().strip()
        self.refusal = "" if line else self.log.read_text().strip().splitlines()[-1]
        self.url = f"ws://{line.removeprefix('listening on ')}"

    def send(self, number):
        self.process.send_signal(number)

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def end(self):
        self.process.kill()
        self.process.wait()


class Nodes:
    """Servers over one new database."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.database = POSTGRES.database()
        self.servers = [Server(POSTGRES.url(self.database)) for _ in range(self.count)]
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.end()

    def load(self, name, *words, meanwhile=lambda: None):
        """What a load reports, with the processor time of all servers for each operation, in microseconds."""
        begin = sum(server.cpu() for server in self.servers)
        others = [word for server in self.servers[1:] for word in ("--also", server.url)]
        process = subprocess.Popen(
            [LAB, "load", name, *map(str, words), "--bystanders", "0", "--alone-seconds", "0.1", "--url",
             self.servers[0].url, *others], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = ""
        for line in process.stderr:
            said += line
            if line.startswith("the load begins"):
                break
        meanwhile()
        output, errors = process.communicate()
        if process.returncode:
            logs = [server.log.read_text()[-500:] for server in self.servers]
            raise RuntimeError(f"load {name}: {said}{errors}{logs}")
        report = json.loads(output.splitlines()[-1])
        if all(server.process.poll() is None for server in self.servers):
            spent = sum(server.cpu() for server in self.servers) - begin
            report["cpu_us"] = spent * 1e6 / report["operations"]
        return report


def pairs(figure):
    """The medians of a figure of one server and of two, in turn."""
    figures = {1: [], 2: []}
    for _ in range(max(1, round(3 * SCALE))):
        for count in figures:
            with Nodes(count) as nodes:
                figures[count].append(figure(nodes))
    return [statistics.median(found) for found in figures.values()]


def tell(goal, figure, value, bound, is_met, **more):
    global FAILED
    FAILED = FAILED or not is_met
    print(json.dumps({"goal": goal, "figure": figure, "value": round(value, 3) if isinstance(value, float) else value,
                      "bound": bound, "met": is_met, **more}), flush=True)


def seconds(whole):
    return max(3, whole * SCALE)


# What follows are the goals, by their numbers.

def g2():
    def cost(nodes):
        return nodes.load("writers", "--clients", 64, "--files", 64, "--seconds", seconds(20))["cpu_us"]

    one, two = pairs(cost)
    tell("G2", "64 files, two servers: CPU an upload, of that of one", two / one, "<= 1.1", two / one <= 1.1,
         one_us=round(one), two_us=round(two))


def g3():
    for pause, bound in ((0, 0.6), (5, 0.95)):
        shares = []

        def rate(nodes):
            report = nodes.load("writers", "--clients", 64, "--files", 1, "--pause", pause, "--seconds", seconds(20))
            if nodes.count == 2:
                shares.append(report["latency_ms"]["acknowledged_server_1"]["count"] / report["operations"])
            return report["operations"] / report["seconds"]

        one, two = pairs(rate)
        share = statistics.median(shares)
        tell("G3", f"one file, 64 writers, pause {pause} ms, two servers: uploads a second, of those of one", two / one,
             f">= {bound}", two / one >= bound, one=round(one), two=round(two))
        tell("G3", f"pause {pause} ms: share of the first server", share, "0.35 to 0.65", 0.35 <= share <= 0.65)


def g6():
    def figures(nodes):
        readers, rounds = max(50, round(1_000 * SCALE)), max(20, round(100 * SCALE))
        report = nodes.load("fanout", "--readers", readers, "--rounds", rounds)
        return report["latency_ms"]["last_reader"]["p50"], report["cpu_us"]

    times, costs = {1: [], 2: []}, {1: [], 2: []}
    for _ in range(max(1, round(3 * SCALE))):
        for count in times:
            with Nodes(count) as nodes:
                last, cost = figures(nodes)
            times[count].append(last)
            costs[count].append(cost)
    later = statistics.median(times[2]) - statistics.median(times[1])
    ratio = statistics.median(costs[2]) / statistics.median(costs[1])
    tell("G6", "the last reader of two servers, later than of one, in ms", later, "<= 5", later <= 5)
    tell("G6", "CPU a delivery, of that of one", ratio, "<= 1.1", ratio <= 1.1)


def gaps(goal, bound, times, disturb):
    """The longest waits of clients of the second server while something is done to the first one."""
    longest = []
    for _ in range(max(1, round(times * SCALE))):
        with Nodes(2) as nodes:
            report = nodes.load("writers", "--clients", 16, "--files", 1, "--pause", 20, "--seconds", 12,
                                meanwhile=lambda: (time.sleep(3), disturb(nodes.servers[0])))
        longest.append(report["latency_ms"]["acknowledged_server_2"]["max"])
    tell(goal, "the longest wait of a bystander on the same file, in ms", max(longest), f"<= {bound}",
         max(longest) <= bound, median=round(statistics.median(longest)), times=len(longest))


def g8():
    gaps("G8", 250, 10, lambda server: server.send(signal.SIGKILL))


def g9():
    def stop(server):
        server.send(signal.SIGSTOP)
        time.sleep(5)
        server.send(signal.SIGCONT)

    gaps("G9", 2_500, 10, stop)


def g10():
    database = POSTGRES.database()
    words = ["--store", POSTGRES.url(database), "--nodes", "3", "--clients", "64" if SCALE >= 1 else "8", "--seed",
             str(int(time.time())), "--cycles", str(max(10, round(1_000 * SCALE))), "--serve", ANABRANCH]
    found = subprocess.run([LAB, "torture", *words], capture_output=True, text=True)
    tell("G10", "servers and replicas are killed and stopped: ledger, states", found.stdout.strip().splitlines()[-1],
         "2 passed, 0 failed", found.returncode == 0, lines=found.stdout.strip().splitlines()[:-1])
    checked = subprocess.run([ANABRANCH, "verify", "--config", "/dev/null"], capture_output=True, text=True,
                             env={**os.environ, "ANABRANCH_STORE": POSTGRES.url(database)})
    lines = checked.stdout.strip().splitlines() or [checked.stderr]
    tell("G10", "verify afterwards", lines[-1], "no damage", checked.returncode == 0)


def g11():
    """The connections over which servers hear of each other stand still."""
    over = threading.Event()

    def silence(database):
        stopped = set()
        while not over.wait(0.2):
            rows = POSTGRES.sql("SELECT pid FROM pg_stat_activity WHERE datname = '" + database
                                + "' AND query LIKE 'LISTEN anabranch_wake%'")
            for pid in {int(row) for row in rows.split()} - stopped:
                os.kill(pid, signal.SIGSTOP)
                stopped.add(pid)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)

    with Nodes(2) as nodes:
        quiet = threading.Thread(target=silence, args=(nodes.database,))
        quiet.start()
        time.sleep(1)
        report = nodes.load("fanout", "--readers", 20, "--rounds", 20, "--pause", 100)
        over.set()
        quiet.join()
    longest = report["latency_ms"]["last_reader"]["max"]
    tell("G11", "without wakes: the last reader, in ms", longest, "<= 1200", longest <= 1_200)


def starts():
    """What a server says that cannot start: a sentence, and not more."""
    def refused(what, store, part, words=("--shared",)):
        server = Server(store, words=words)
        server.end()
        is_met = part in server.refusal and "Fatal" not in server.refusal
        tell("starts", what, server.refusal[-200:], part, is_met)

    database = POSTGRES.database()
    hba = POSTGRES.folder / "data" / "pg_hba.conf"
    POSTGRES.sql("CREATE ROLE stranger LOGIN PASSWORD 'a'; CREATE ROLE reader LOGIN")
    rules = hba.read_text()
    hba.write_text("local all stranger scram-sha-256\n" + rules)
    POSTGRES.sql("SELECT pg_reload_conf()")
    time.sleep(1)
    os.environ["PGPASSWORD"] = "wrong"
    refused("wrong password", POSTGRES.url(database, "stranger"), "check name and password")
    del os.environ["PGPASSWORD"]
    hba.write_text(rules)
    POSTGRES.sql("SELECT pg_reload_conf()")
    refused("missing rights", POSTGRES.url(database, "reader"), "may not do what is needed")
    refused("unreachable host", "postgres://127.0.0.1:1/a", "PostgreSQL cannot be reached")
    refused("no such database", POSTGRES.url("nothing"), "does not exist")
    POSTGRES.sql("CREATE SCHEMA anabranch_store; CREATE TABLE anabranch_store.t (a int)", database)
    refused("schema of somebody else", POSTGRES.url(database), "of another application")
    for words, other in ((("--shared",), ()), ((), ("--shared",))):
        database = POSTGRES.database()
        Server(POSTGRES.url(database), words=words).end()
        refused("for one server or for several", POSTGRES.url(database), "shared", other)
    POSTGRES.sql("UPDATE anabranch_store.meta SET value = '99' WHERE name = 'format'", database)
    refused("another format", POSTGRES.url(database), "the store has format 99", ())
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        POSTGRES.sql(f"ALTER SYSTEM SET {setting} = off")
        POSTGRES.sql("SELECT pg_reload_conf()")
        time.sleep(1)
        refused(f"{setting} off", POSTGRES.url(POSTGRES.database()), f"{setting} is off")
        POSTGRES.sql(f"ALTER SYSTEM RESET {setting}")
        POSTGRES.sql("SELECT pg_reload_conf()")
        time.sleep(1)


class Network:
    """A namespace for each of two servers, and PostgreSQL outside of them."""

    def __init__(self):
        self.names = [f"anabranch-{os.getpid()}-{number}" for number in range(2)]
        self.links = [f"an{os.getpid() % 100_000}v{number}" for number in range(2)]
        self.hosts = []

    def __enter__(self):
        for number, (name, link) in enumerate(zip(self.names, self.links)):
            here, there = f"10.213.{number}.1", f"10.213.{number}.2"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "addr", "add", f"{here}/24", "dev", link)
            run("ip", "link", "set", link, "up")
            run("ip", "-n", name, "addr", "add", f"{there}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            self.hosts.append((here, there))
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def sides(self, number):
        """The words before a command on either side, with the device there and the address of the other one."""
        here, there = self.hosts[number]
        return [([], self.links[number], there), (["ip", "netns", "exec", self.names[number]], "eth0", here)]

    def disturb(self, number, *netem):
        """Has all packets of a server delayed, lost or doubled; nothing for none of it."""
        for within, device, _ in self.sides(number):
            run(*within, "tc", "qdisc", *(["replace"] if netem else ["del"]), "dev", device, "root",
                *(["netem", *netem] if netem else []))

    def swallow(self, number, is_on):
        """Has all packets of a server go to a machine that there is not."""
        for within, device, address in self.sides(number):
            if is_on:
                run(*within, "ip", "neigh", "replace", address, "lladdr", "02:00:00:00:00:01", "dev", device, "nud",
                    "permanent")
            else:
                run(*within, "ip", "neigh", "del", address, "dev", device)

    def has_netem(self):
        try:
            self.disturb(0, "delay", "1ms")
        except subprocess.CalledProcessError:
            return False
        self.disturb(0)
        return True


def network():
    """Two servers whose network is slow, loses packets, and swallows all of them for a while."""
    with Network() as net:
        here = [here for here, _ in net.hosts]
        with socket.create_server((here[0], 0)) as free:
            port = free.getsockname()[1]
        postgres = Postgres(WORK / "reached", address=",".join(here), port=port)
        (postgres.folder / "data" / "pg_hba.conf").open("a").write("host all all 10.213.0.0/16 trust\n")
        postgres.sql("SELECT pg_reload_conf()")
        try:
            has_netem = net.has_netem()
            for what, bound, faults in (
                ("2 ms of delay", 1_000, ["delay", "1ms"]),
                ("1 % of the packets lost", 5_000, ["loss", "1%"]),
                ("packets in another order, and twice", 2_000, ["delay", "5ms", "reorder", "25%", "duplicate", "5%"]),
                ("nothing of one server passes for 8 s", 5_000, None),
            ):
                if faults and not has_netem:
                    print(f"this kernel has no netem: {what} was not tried", flush=True)
                    continue
                database = postgres.database()
                nodes = Nodes(2)
                nodes.servers = [
                    Server(f"postgres://postgres@{here}:{port}/{database}", ("ip", "netns", "exec", name), there)
                    for (here, there), name in zip(net.hosts, net.names)]

                def black_hole():
                    time.sleep(3)
                    net.swallow(0, True)
                    time.sleep(8)
                    net.swallow(0, False)

                if faults:
                    for number in range(2):
                        net.disturb(number, *faults)
                try:
                    report = nodes.load("writers", "--clients", 8, "--files", 1, "--pause", 20, "--seconds", 16,
                                        meanwhile=(lambda: None) if faults else black_hole)
                finally:
                    if faults:
                        for number in range(2):
                            net.disturb(number)
                    for server in nodes.servers:
                        server.end()
                longest = report["latency_ms"]["acknowledged_server_2"]["max"]
                tell("network", what + ": the longest wait of a client of the other server, in ms", longest,
                     f"<= {bound}", longest <= bound, uploads=report["operations"])
        finally:
            postgres.crash()


GOALS = {
    "G2": g2, "G3": g3, "G6": g6, "G8": g8, "G9": g9, "G10": g10, "G11": g11, "starts": starts, "network": network}

if __name__ == "__main__":
    words = sys.argv[1:]
    SCALE = 1.0
    if "--scale" in words:
        place = words.index("--scale")
        SCALE = float(words[place + 1])
        del words[place:place + 2]
    ANABRANCH, LAB, *wanted = words
    unknown = [goal for goal in wanted if goal not in GOALS]
    if unknown:
        sys.exit(f"there is no goal {', '.join(unknown)}; the goals are: {', '.join(GOALS)}")
    FAILED = False
    WORK = pathlib.Path(tempfile.mkdtemp(prefix="anabranch-nodes-"))
    WORK.chmod(0o755)
    POSTGRES = Postgres(WORK / "pg")
    try:
        for goal in wanted or GOALS:
            GOALS[goal]()
    finally:
        POSTGRES.crash()
        shutil.rmtree(WORK, ignore_errors=True)
    sys.exit(1 if FAILED else 0)
