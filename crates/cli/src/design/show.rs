//! `isomer design show`.

use super::{ShowArgs, open};
use crate::failure::Failure;
use crate::out;
use isomer_design::{Design, KeyRange, TableDesign};
use serde_json::{Value, json};

pub(super) fn run(args: &ShowArgs) -> Result<(), Failure> {
    let design = open(&args.folder)?.design();
    if args.json {
        out::line(to_json(&design));
    } else if args.full {
        out::print(design.to_text());
    } else {
        out::print(design.summary());
    }
    Ok(())
}

fn to_json(design: &Design) -> Value {
    let sites: Vec<String> = design.sites().iter().map(|site| site.to_string()).collect();
    let tables: Vec<Value> = design.tables().map(|(_, table)| table_json(table)).collect();
    json!({ "sites": sites, "tables": tables })
}

fn table_json(table: &TableDesign) -> Value {
    let schema = table.schema();
    let columns: Vec<Value> = schema
        .columns()
        .iter()
        .map(|column| {
            let ty = column.ty.to_string();
            json!({ "name": column.name, "type": ty, "nullable": column.nullable })
        })
        .collect();
    let key: Vec<&str> = schema.key_columns().map(|column| column.name.as_str()).collect();
    let partitions: Vec<Value> = table
        .partitions_in(&KeyRange::all())
        .map(|(range, placement)| {
            let replicas: Vec<String> = placement.replicas.iter().map(|s| s.to_string()).collect();
            json!({
                "partition": schema.partition_name(&range.start),
                "range": schema.format_range(&range),
                "master": placement.master.to_string(),
                "replicas": replicas,
            })
        })
        .collect();
    json!({ "name": table.name(), "columns": columns, "key": key, "partitions": partitions })
}
