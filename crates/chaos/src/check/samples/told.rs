//! What clients did and were told.

use crate::history::{Answer, Call, Claim, Event, Write};

use super::Sample;

fn claim(address: &str, write: bool) -> Claim {
    Claim {
        address: address.to_owned(),
        write,
    }
}

fn writes(address: &str, value: &str) -> Vec<Write> {
    vec![Write {
        address: address.to_owned(),
        value: value.to_owned(),
        before: String::new(),
    }]
}

impl Sample {
    pub(in crate::check) fn begin(&mut self, key: &str, address: &str) -> u64 {
        self.invoke(Call::Begin {
            state: "s".to_owned(),
            key: key.to_owned(),
            claims: vec![claim(address, true)],
            patient: true,
            wait_seconds: 25,
        })
    }

    pub(in crate::check) fn granted(
        &mut self,
        op: u64,
        reservation: &str,
        token: i64,
        queued_us: Option<u64>,
    ) {
        let answer = Answer {
            reservation: Some(reservation.to_owned()),
            token: Some(token),
            queued_us,
            tries: 1,
            ..Answer::default()
        };
        self.note(Event::Ok { op, answer });
    }

    pub(in crate::check) fn begin_ok(
        &mut self,
        key: &str,
        reservation: &str,
        token: i64,
        address: &str,
    ) {
        let op = self.begin(key, address);
        self.granted(op, reservation, token, None);
    }

    pub(in crate::check) fn unknown(&mut self, op: u64) {
        let answer = Answer::default();
        self.note(Event::Unknown { op, answer });
    }

    pub(in crate::check) fn extend_ok(&mut self, run: &str, address: &str) {
        let call = Call::Extend {
            run: run.to_owned(),
            claims: vec![claim(address, true)],
        };
        self.ok(call, Answer::default());
    }

    pub(in crate::check) fn renewed(&mut self, run: &str, expires_us: i64) {
        let call = Call::Renew {
            run: run.to_owned(),
        };
        let answer = Answer {
            expires_us: Some(expires_us),
            ..Answer::default()
        };
        self.ok(call, answer);
    }

    pub(in crate::check) fn finish_ok(&mut self, run: &str, outcome: &str) {
        let call = Call::Finish {
            run: run.to_owned(),
            outcome: outcome.to_owned(),
        };
        self.ok(call, Answer::default());
    }

    fn upload(run: &str, address: &str, value: &str, digest: &str) -> Call {
        Call::Upload {
            state: "s".to_owned(),
            run: run.to_owned(),
            lock: "tf".to_owned(),
            sha256: digest.to_owned(),
            writes: writes(address, value),
            late: false,
        }
    }

    pub(in crate::check) fn upload_ok(
        &mut self,
        run: &str,
        address: &str,
        value: &str,
        digest: &str,
    ) {
        self.ok(Self::upload(run, address, value, digest), Answer::default());
    }

    pub(in crate::check) fn upload_fail(
        &mut self,
        run: &str,
        address: &str,
        value: &str,
        digest: &str,
        code: &str,
    ) {
        self.fail(Self::upload(run, address, value, digest), 409, code);
    }

    fn push(id: &str, address: &str, value: &str) -> Call {
        Call::Push {
            state: "s".to_owned(),
            id: id.to_owned(),
            sha256: format!("digest of {value}"),
            writes: writes(address, value),
            late: false,
        }
    }

    pub(in crate::check) fn push_ok(&mut self, id: &str, address: &str, value: &str) {
        self.ok(Self::push(id, address, value), Answer::default());
    }

    pub(in crate::check) fn push_fail(&mut self, id: &str, address: &str, value: &str, code: &str) {
        self.fail(Self::push(id, address, value), 409, code);
    }

    fn lock_call(id: &str) -> Call {
        Call::Lock {
            state: "s".to_owned(),
            id: id.to_owned(),
        }
    }

    pub(in crate::check) fn lock_ok(&mut self, id: &str) {
        self.ok(Self::lock_call(id), Answer::default());
    }

    pub(in crate::check) fn lock_fail(&mut self, id: &str, status: u16) {
        self.fail(Self::lock_call(id), status, "state_locked");
    }

    pub(in crate::check) fn unlock_ok(&mut self, id: &str) {
        let call = Call::Unlock {
            state: "s".to_owned(),
            id: id.to_owned(),
        };
        self.ok(call, Answer::default());
    }

    pub(in crate::check) fn recover_ok(&mut self, sent: &str, found: &str) {
        let call = Call::Recover {
            state: "s".to_owned(),
            sha256: sent.to_owned(),
        };
        let answer = Answer {
            sha256: Some(found.to_owned()),
            ..Answer::default()
        };
        self.ok(call, answer);
    }

    pub(in crate::check) fn read_ok(&mut self, values: &[(&str, &str)]) {
        let call = Call::Read {
            state: "s".to_owned(),
        };
        let values = values.iter();
        let answer = Answer {
            values: values
                .map(|(address, value)| ((*address).to_owned(), (*value).to_owned()))
                .collect(),
            ..Answer::default()
        };
        self.ok(call, answer);
    }
}
