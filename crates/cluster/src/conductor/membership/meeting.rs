//! The meeting with a site that has restarted, within its readmission ([`super::readmission`]): the
//! site and all others learn whose messages to accept.

use super::describe;
use super::readmission::Readmission;
use super::state::Replaced;
use crate::conductor::protocol;
use crate::transport::Transport;
use isomer_design::SiteId;
use isomer_site::{Answer, Holding, Refusal, Step, TxnId};

impl<T: Transport> Readmission<'_, T> {
    /// Tells the site what it has missed while it was down, and returns those of its holdings for
    /// which `is_such` is true. They have acquired what was only released to them.
    pub(super) async fn meet(
        &self,
        is_such: impl Fn(&Holding) -> bool,
    ) -> Result<Vec<Holding>, Refusal> {
        let (site, transport) = (self.site, &self.conductor.transport);
        let is_replaced = self.conductor.membership.is_replaced(site);
        match is_replaced {
            true => drop(transport.step(site, Step::Replaced(site)).await?),
            // All of its messages are still valid, and others may wait for its answers.
            false => self.have_heard(site).await?,
        }
        self.tell_whom_to_hear(site).await?;
        let held = async || {
            let mut held = describe(transport, site).await?;
            held.retain(&is_such);
            Ok::<_, Refusal>(held)
        };
        if !is_replaced {
            // Before anything is reserved: a task that has reserved one of these may wait for the
            // site.
            self.acquire_released(&held().await?).await?;
        }
        held().await
    }

    /// Makes the other sites accept the site's messages again. Sites with failed logs are told when
    /// they restart.
    pub(super) async fn have_heard(&self, site: SiteId) -> Result<(), Refusal> {
        for other in self.conductor.design().sites().iter().filter(|other| *other != site) {
            if self.conductor.transport.failure(other).is_some() {
                continue;
            }
            match protocol::ask(&self.conductor.transport, other, Step::Admit(site)).await {
                Err(Refusal::Log(error)) if error.is_final() => {}
                admitted => drop(admitted?),
            }
        }
        Ok(())
    }

    /// Tells a site which others to accept messages of. Work under way may wait until the site
    /// knows which sites are up, and which are replaced.
    pub(super) async fn tell_whom_to_hear(&self, site: SiteId) -> Result<(), Refusal> {
        for other in self.conductor.design().sites().iter().filter(|other| *other != site) {
            self.let_hear(site, other).await?;
        }
        Ok(())
    }

    /// Makes a site accept the messages of another, or fences it, as the remaining sites do. The
    /// site was down when those were told.
    async fn let_hear(&self, site: SiteId, other: SiteId) -> Result<(), Refusal> {
        // A takeover or readmission of that other site waits until this is dropped.
        let _saying = self.conductor.membership.say_of(other);
        loop {
            let replaced = self.conductor.membership.replaced(other);
            let is_replaced = replaced.is_some();
            match replaced {
                Some(Replaced { decided, .. }) => {
                    let fenced = self.conductor.transport.step(site, Step::Fence(other)).await?;
                    if let (Answer::Fenced(fenced), Some(decided)) = (fenced, decided) {
                        // They were down together, so the site could not be told before.
                        let outcome = |txn: &TxnId| (*txn, decided.get(txn).copied());
                        let outcomes = fenced.in_doubt.iter().map(outcome).collect();
                        self.conductor.transport.step(site, Step::EndInDoubt(outcomes)).await?;
                    }
                    self.conductor.transport.step(site, Step::Replaced(other)).await?;
                }
                // The takeover that is under way will tell the site.
                None if self.conductor.membership.is_taken_over(other) => {}
                None => drop(self.conductor.transport.step(site, Step::Admit(other)).await?),
            }
            // A readmission that was under way may have admitted the other site before the last of
            // these steps.
            if self.conductor.membership.is_replaced(other) == is_replaced {
                return Ok(());
            }
        }
    }
}
