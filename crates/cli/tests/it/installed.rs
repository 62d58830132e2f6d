//! The main paths: runs, their reports, signals, rights and recovery. `make test` tries these on the very file that
//! `make install` installs, and nowhere else.

mod commands;
mod dir;
mod own_command;
mod postgres;
mod recover;
mod rights;
mod serve;
mod shipped;
mod signals;
mod squid;
