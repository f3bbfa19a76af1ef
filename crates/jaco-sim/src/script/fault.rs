//! Lines that break something, or repair it.

use jaco_agent::fake::{Behaviour, Reachability};
use jaco_types::{Exit, ReplicaId};

use super::words::{digest, disk, millis, number, registry};
use super::{CommandError, Session};
use crate::network::MachineIx;
use crate::world::{Harm, Registry, usual_behaviour};

impl Session {
    pub(super) fn fault(&mut self, words: &[&str]) -> Result<(), CommandError> {
        match words {
            ["kill", hosts @ ..] => {
                for ix in self.machines(hosts)? {
                    self.cluster()?.kill(ix);
                }
            }
            ["start", hosts @ ..] => {
                self.cluster()?.finish_joins();
                for ix in self.machines(hosts)? {
                    self.cluster()?.start(ix);
                }
            }
            ["power-off", hosts @ ..] => {
                for ix in self.machines(hosts)? {
                    self.cluster()?.power_off(ix);
                }
            }
            ["kill-router", hosts @ ..] => {
                for ix in self.machines(hosts)? {
                    self.cluster()?.kill_router(ix);
                }
            }
            ["partition", groups @ ..] => {
                let groups = groups.split(|word| *word == "|");
                let groups: Vec<Vec<MachineIx>> =
                    groups.map(|hosts| self.machines(hosts)).collect::<Result<_, _>>()?;
                self.cluster()?.partition(&groups);
            }
            ["cut", from, "->", to] => {
                let (from, to) = (self.machine(from)?, self.machine(to)?);
                self.cluster()?.cut(from, to);
            }
            ["heal"] => self.cluster()?.heal(),
            ["engine", "all", "up"] => {
                for ix in self.machines(&["all"])? {
                    self.cluster()?.set_engine(ix, Reachability::Up);
                }
            }
            ["engine", host, "down"] => self.set_engine(host, Reachability::Down)?,
            ["engine", host, "up"] => self.set_engine(host, Reachability::Up)?,
            ["disk", host, state] => {
                let disk = disk(state)?;
                for ix in self.machines(&[host])? {
                    self.cluster()?.set_disk(ix, disk);
                }
            }
            ["load", host, "unknown"] => {
                let ix = self.machine(host)?;
                self.cluster()?.set_load(ix, None);
            }
            ["load", host, percent] => {
                let ix = self.machine(host)?;
                self.cluster()?.set_load(ix, Some(number(percent)?));
            }
            ["freeze", length] => {
                let length = millis(length)?;
                self.cluster()?.freeze(length);
            }
            ["drift", host, permille] => self.drift(host, permille)?,
            ["clock", host, step] => self.step_clock(host, step)?,
            ["pull", image, how @ ..] => self.set_registry(image, how)?,
            ["registry", host, "wants", password] => {
                let registry = registry(host)?;
                self.cluster()?.want_password(&registry, password);
            }
            ["image", image, how @ ..] => self.set_behaviour(image, how)?,
            ["kill-container", replica] => self.harm(replica, Harm::Kill { code: 1 })?,
            ["kill-container", replica, code] => {
                self.harm(replica, Harm::Kill { code: number(code)? })?;
            }
            ["remove-container", replica] => self.harm(replica, Harm::Remove)?,
            ["sicken", replica] => self.harm(replica, Harm::Sicken)?,
            ["cure", replica] => self.harm(replica, Harm::Cure)?,
            words => {
                let what = format!("{:?} is no command", words.join(" "));
                return Err(CommandError::Unclear(what));
            }
        }
        Ok(())
    }

    fn set_engine(&mut self, host: &str, reach: Reachability) -> Result<(), CommandError> {
        let ix = self.machine(host)?;
        self.cluster()?.set_engine(ix, reach);
        Ok(())
    }

    fn drift(&mut self, host: &str, permille: &str) -> Result<(), CommandError> {
        let ix = self.machine(host)?;
        let permille = permille.parse();
        let permille = permille.map_err(|_| CommandError::unclear("thousandths, as -90"))?;
        self.cluster()?.drift(ix, permille);
        Ok(())
    }

    fn step_clock(&mut self, host: &str, step: &str) -> Result<(), CommandError> {
        let ix = self.machine(host)?;
        let unclear = || CommandError::unclear(format!("{step:?} is not like +5s or -5s"));
        let (sign, length) = step.split_at_checked(1).ok_or_else(unclear)?;
        let length = i64::try_from(millis(length)?.0).map_err(|_| unclear())?;
        let step = match sign {
            "+" => length,
            "-" => -length,
            _ => return Err(unclear()),
        };
        self.cluster()?.step_clock(ix, step);
        Ok(())
    }

    fn set_registry(&mut self, image: &str, how: &[&str]) -> Result<(), CommandError> {
        let (how, only) = match how {
            [how @ .., "on", host] => (how, Some(self.machine(host)?)),
            how => (how, None),
        };
        let registry = match how {
            ["is", mark] if only.is_none() => {
                let digest = digest(image, mark)?;
                self.cluster()?.move_tag(image, &digest);
                return Ok(());
            }
            ["works"] => Registry::Works,
            ["hangs"] => Registry::Hangs,
            ["takes", length] => Registry::Takes(millis(length)?),
            ["fails", reason] => Registry::Fails((*reason).to_owned()),
            _ => {
                return Err(CommandError::unclear(
                    "works, hangs, takes <time>, fails <reason> or is <hex digit>",
                ));
            }
        };
        self.cluster()?.set_registry(image, registry, only);
        Ok(())
    }

    fn set_behaviour(&mut self, image: &str, how: &[&str]) -> Result<(), CommandError> {
        let usual = usual_behaviour();
        let exit =
            |code: &str| Ok::<_, CommandError>(Exit { code: number(code)?, out_of_memory: false });
        let behaviour = match how {
            ["works"] => usual,
            ["exits", code, "after", length] => {
                Behaviour { exit: Some((millis(length)?, exit(code)?)), ..usual }
            }
            ["healthy", "after", length] => Behaviour { healthy_after: millis(length)?, ..usual },
            ["unhealthy", "after", length] => {
                Behaviour { unhealthy_after: Some(millis(length)?), ..usual }
            }
            ["stops", "in", length] => Behaviour { stop_takes: millis(length)?, ..usual },
            ["refused", reason] => Behaviour { refuse: Some((*reason).to_owned()), ..usual },
            _ => return Err(CommandError::unclear("images do no such thing")),
        };
        self.cluster()?.set_behaviour(image, behaviour);
        Ok(())
    }

    fn harm(&mut self, replica: &str, harm: Harm) -> Result<(), CommandError> {
        let replica =
            ReplicaId::parse(replica).map_err(|error| CommandError::unclear(error.to_string()))?;
        if self.cluster()?.harm(&replica, harm) == 0 {
            self.say("  there is none");
        }
        Ok(())
    }
}
