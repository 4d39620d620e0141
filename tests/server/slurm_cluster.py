"""Runs a Slurm of one machine with eight fake GPUs, without systemd, during the tests."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from conftest import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
GPUS = 8
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/sockets/munge
StateSaveLocation={folder}/controller
SlurmdSpoolDir={folder}/node
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/node.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/node.log
TmpFS={folder}/tmp
PlugStackConfig={folder}/plugstack.conf
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 \
RealMemory=8000 Gres=gpu:{gpus}
PartitionName=main Nodes=ALL Default=YES State=UP
"""


def why_not():
    """Returns the reason why Slurm cannot run here; empty if it can."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = [program for program in PROGRAMS if not shutil.which(program, path=path)]
    if missing:
        return f"there is no {missing[0]}"
    return "" if os.geteuid() == 0 else "Slurm's daemons want root"


class SlurmCluster:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dotresize-slurm-"))
        self.folder.chmod(0o755)
        self.host = socket.gethostname().split(".")[0]
        self.daemons = {}
        self.environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin",
                            "SLURM_CONF": str(self.folder / "slurm.conf")}
        try:
            self._configure()
            self._start_munge()
            self.start("slurmctld", "-D", "-i")
            self.start("slurmd", "-D", "-N", self.host)
            self.wait_for_node("idle")
        except BaseException:
            self.stop()
            raise

    def _configure(self):
        for name in ("sockets", "controller", "gpus", "tmp"):
            (self.folder / name).mkdir()
        for gpu in range(GPUS):
            subprocess.run(["mknod", self.folder / f"gpus/{gpu}", "c", "1", "3"], check=True)
        (self.folder / "plugstack.conf").touch()
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "gres.conf").write_text(f"NodeName={self.host} Name=gpu File={self.folder}/gpus/[0-{GPUS - 1}]\n")
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=self.host, folder=self.folder, controller_port=free_port(), node_port=free_port(), gpus=GPUS))

    def _start_munge(self):
        secret = self.folder / "munge"
        secret.mkdir(mode=0o700)
        (secret / "key").write_bytes(os.urandom(1024))
        (secret / "key").chmod(0o600)
        files = {"key-file": "munge/key", "socket": "sockets/munge", "pid-file": "munge/pid",
                 "log-file": "munge/log", "seed-file": "munge/seed"}
        self.start("munged", "--foreground", *(f"--{option}={self.folder}/{file}" for option, file in files.items()))
        while not (self.folder / "sockets/munge").exists():
            assert self.daemons["munged"].poll() is None, (secret / "log").read_text()
            time.sleep(0.02)

    def start(self, name, *arguments):
        """Starts a daemon that does not outlive this process."""
        with open(self.folder / f"{name}.out", "ab") as output:
            self.daemons[name] = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", name, *arguments],
                                                  env=self.environment, stdout=output, stderr=output)

    def signal(self, name, number):
        self.daemons[name].send_signal(number)

    def run(self, *command):
        """Runs the command. Returns its output."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def job(self, name):
        """Returns {key: value} of `scontrol show job` for the newest job of this name; empty if there is none."""
        ids = self.run("squeue", "--noheader", "--states=all", f"--name={name}", "--format=%i").split()
        if not ids:
            return {}
        words = self.run("scontrol", "show", "job", max(ids, key=int)).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_for_node(self, state):
        end = time.monotonic() + 30
        while subprocess.run(["sinfo", "--noheader", "--format=%t"], env=self.environment, capture_output=True,
                             text=True).stdout.strip() != state:
            assert time.monotonic() < end, (self.folder / "controller.log").read_text()[-3000:]
            time.sleep(0.1)

    def stop(self):
        """Ends the daemons, including those that a test has stopped, and everything they started."""
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait(20)
        ours = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if ours in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
        shutil.rmtree(self.folder)
