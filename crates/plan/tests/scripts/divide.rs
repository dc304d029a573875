//! Scripts about dividing graphs: a graph, then its parts.

use crate::{parse, run};
use goldenscript::{Command, Context, Runner};
use isomer_plan::divide::{Graph, divide};
use std::error::Error;
use std::fmt::Write as _;

#[test]
fn divide_scripts() {
    run("divide", State::default);
}

/// The graph that a script has made so far.
#[derive(Default)]
struct State {
    weights: Vec<u64>,
    edges: Vec<(u32, u32, u64)>,
}

impl Runner for State {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let mut args = command.consume_args();
        let mut number = |what: &str| -> Result<u64, Box<dyn Error>> {
            parse(what, args.next_pos().ok_or(format!("{}: {what}?", command.name))?)
        };
        let first = self.weights.len() as u32;
        let mut output = String::new();
        match command.name.as_str() {
            // So many vertices, without edges.
            "vertices" => {
                let count = number("how many")?;
                self.weights.extend((0..count).map(|_| 1));
            }
            // So many cliques of so many vertices, each with a vertex tied to the next.
            "ring" => {
                let (cliques, size) = (number("cliques")? as u32, number("size")? as u32);
                self.weights.extend((0..cliques * size).map(|_| 1));
                for clique in 0..cliques {
                    let at = |clique: u32, member| first + clique % cliques * size + member;
                    for a in 0..size {
                        self.edges.extend((0..a).map(|b| (at(clique, a), at(clique, b), 3)));
                    }
                    self.edges.push((at(clique, size - 1), at(clique + 1, 0), 1));
                }
            }
            "grid" => {
                let (columns, rows) = (number("columns")? as u32, number("rows")? as u32);
                self.weights.extend((0..columns * rows).map(|_| 1));
                for at in 0..columns * rows {
                    let right = (at % columns + 1 < columns).then_some(at + 1);
                    let below = (at + columns < columns * rows).then_some(at + columns);
                    let ends = right.into_iter().chain(below);
                    self.edges.extend(ends.map(|to| (first + at, first + to, 1)));
                }
            }
            "star" => {
                let leaves = number("leaves")? as u32;
                self.weights.extend((0..=leaves).map(|_| 1));
                self.edges.extend((1..=leaves).map(|leaf| (first, first + leaf, 1)));
            }
            "weight" => {
                let (vertex, weight) = (number("vertex")?, number("weight")?);
                *self.weights.get_mut(vertex as usize).ok_or("no such vertex")? = weight;
            }
            "edge" => {
                let ends = [number("from")?, number("to")?].map(|end| end as u32);
                self.edges.push((ends[0], ends[1], number("weight")?));
            }
            // Into so many parts, that may be heavier than the average by so many percent.
            "divide" => {
                let (parts, percent) = (number("parts")?, number("percent")?);
                output = self.divide(parts as usize, percent as f64 / 100.0)?;
            }
            other => return Err(format!("unknown command {other}").into()),
        }
        args.reject_next()?;
        Ok(output)
    }
}

impl State {
    fn divide(&self, parts: usize, imbalance: f64) -> Result<String, Box<dyn Error>> {
        let graph = Graph::new(self.weights.clone(), &self.edges);
        let division = divide(&graph, parts, imbalance, 1);
        let mut text = format!("cut {} of {}\n", graph.cut(&division), self.tied());
        for part in 0..parts as u32 {
            let inside = (0..graph.len() as u32).filter(|at| division[*at as usize] == part);
            let inside: Vec<u32> = inside.collect();
            let weight: u64 = inside.iter().map(|at| graph.weight_of(*at)).sum();
            let names: String = inside.iter().map(|at| format!(" {at}")).collect();
            writeln!(text, "  weight {weight}:{names}")?;
        }
        Ok(text)
    }

    fn tied(&self) -> u64 {
        self.edges.iter().map(|(.., weight)| weight).sum()
    }
}
