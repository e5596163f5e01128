//! Documents as tools, and calls of those as requests.

use super::document::{ApiDocument, MAX_DOCUMENT, MAX_OPERATIONS, OperationChoice, read};
use super::tool::{ApiRequest, ApiTool};
use serde_json::{Value, json};

fn choice<'a>() -> OperationChoice<'a> {
    OperationChoice { is_wanted: &|_| true, is_own_header: &|name| name == "x-own" }
}

fn of(version: &str, paths: &Value, components: &Value) -> ApiDocument {
    let document = json!({"openapi": version, "info": {"title": "Pets", "version": "1.2"}, "paths": paths, "components": components});
    read(&document, &choice()).unwrap()
}

fn tool(operation: &Value) -> ApiTool {
    let mut document = of("3.1.0", &json!({"/pets/{id}": {"post": operation}}), &json!({}));
    assert_eq!(document.left_out, []);
    document.tools.pop().unwrap()
}

fn schema(tool: &ApiTool) -> Value {
    definition(tool)["inputSchema"].clone()
}

fn definition(tool: &ApiTool) -> Value {
    serde_json::from_str(&tool.definition).unwrap()
}

fn problems(document: &Value) -> Vec<(String, String)> {
    let problems = read(document, &choice()).unwrap_err();
    problems.into_iter().map(|problem| (problem.path, problem.message)).collect()
}

fn sent(request: &ApiRequest) -> String {
    let body = request.body.as_ref().map(|body| String::from_utf8(body.clone()).unwrap());
    format!("{} {} {}", request.method, request.path, body.unwrap_or_else(|| "-".to_owned()))
}

const ID: fn() -> Value =
    || json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}});

#[test]
fn an_operation_is_a_tool() {
    let operation = json!({
        "operationId": "updatePet", "summary": "Updates a pet.", "description": "All of it.", "deprecated": true,
        "parameters": [
            ID(),
            {"name": "dry", "in": "query", "description": "Only tries.", "schema": {"type": "boolean"}},
            {"name": "X-Reason", "in": "header", "required": true, "schema": {"type": "string"}},
            {"name": "Authorization", "in": "header", "required": true, "schema": {"type": "string"}},
            {"name": "X-Own", "in": "header", "required": true, "schema": {"type": "string"}},
            {"name": "Host", "in": "header", "schema": {"type": "string"}},
        ],
        "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}, "id": {"type": "string", "readOnly": true}}}}}},
    });
    let tool = tool(&operation);
    let shown = definition(&tool);
    assert_eq!(shown["name"], "updatePet");
    assert_eq!(shown["description"], "Updates a pet.\n\nAll of it.\n\nDeprecated: the API may give it up.");
    assert_eq!(
        shown["annotations"],
        json!({"readOnlyHint": false, "idempotentHint": false, "destructiveHint": false})
    );
    assert_eq!(
        shown["inputSchema"],
        json!({"type": "object", "additionalProperties": false, "required": ["id", "X-Reason", "body"], "properties": {
            "id": {"type": "string"}, "dry": {"type": "boolean", "description": "Only tries."}, "X-Reason": {"type": "string"},
            "body": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}})
    );
    let arguments = json!({"id": "a b", "dry": true, "X-Reason": "why", "body": {"name": "Rex", "age": 3}});
    let request = tool.request(&arguments, 0).unwrap();
    assert_eq!(sent(&request), r#"POST /pets/a%20b?dry=true {"age":3,"name":"Rex"}"#);
    assert_eq!(
        (&request.headers["x-reason"], &request.headers["content-type"]),
        (&"why".parse().unwrap(), &"application/json".parse().unwrap())
    );
    assert_eq!(request.headers.len(), 2);
    for wrong in [
        json!({}),
        Value::Null,
        json!([]),
        json!({"id": 1, "X-Reason": "", "body": {"name": ""}}),
        json!({"id": "a", "X-Reason": "", "body": {}}),
        json!({"id": "a", "X-Reason": "", "body": {"name": ""}, "other": 1}),
        json!({"id": "..", "X-Reason": "", "body": {"name": ""}}),
        json!({"id": "a", "X-Reason": "a\r\nb: c", "body": {"name": ""}}),
    ] {
        assert!(tool.request(&wrong, 0).is_err(), "{wrong}");
    }
    let wrong = json!({"id": 1, "X-Reason": "", "body": {"name": 2}});
    assert_eq!(tool.request(&wrong, 1 << 20).unwrap_err().matches(" is not of type ").count(), 1);
    let why = tool.request(&wrong, 0).unwrap_err();
    assert!(why.contains("/id: 1 is not of type \"string\"") && why.contains("/body/name"), "{why}");
}

#[test]
fn arguments_that_are_too_large_are_refused() {
    let text = json!({"type": "string"});
    let tool = tool(&json!({"parameters": [ID(), {"name": "X-Reason", "in": "header", "schema": text}]}));
    for (text, part) in [
        (format!("{{\"id\":{}{}}}", "[".repeat(200), "]".repeat(200)), "too deep"),
        (format!("{{\"id\":\"{}\"}}", "a".repeat(5 << 20)), "bytes"),
    ] {
        let why = tool.request_of(crate::json::Json::parse(&text).as_ref()).unwrap_err();
        assert!(why.contains(part), "{why}");
    }
    let long = json!({"id": "a".repeat(17 << 10), "X-Reason": ""});
    assert!(tool.request(&long, 0).unwrap_err().contains("URL"));
    let long = json!({"id": "a", "X-Reason": "a".repeat(9 << 10)});
    assert!(tool.request(&long, 0).unwrap_err().contains("header"));
}

#[test]
fn hints_follow_the_method() {
    let operation = json!({"parameters": [ID()]});
    let item = json!({"get": operation, "head": operation, "put": operation, "delete": operation, "trace": operation});
    let document = of("3.0.3", &json!({"/pets/{id}": item}), &json!({}));
    let hint = |tool: &ApiTool, name: &str| definition(tool)["annotations"][name].clone();
    let found: Vec<_> = document
        .tools
        .iter()
        .map(|tool| {
            let hints = ["readOnlyHint", "idempotentHint", "destructiveHint"].map(|name| hint(tool, name));
            (tool.name.as_str(), json!(hints), sent(&tool.request(&json!({"id": "1"}), 0).unwrap()))
        })
        .collect();
    assert_eq!(
        found,
        [
            ("get_pets_id", json!([true, null, null]), "GET /pets/1 -".to_owned()),
            ("put_pets_id", json!([false, true, false]), "PUT /pets/1 ".to_owned()),
            ("delete_pets_id", json!([false, true, true]), "DELETE /pets/1 -".to_owned()),
            ("head_pets_id", json!([true, null, null]), "HEAD /pets/1 -".to_owned()),
        ]
    );
    assert_eq!(definition(&document.tools[0])["description"], "GET /pets/{id}");
}

#[test]
fn parameters_of_a_path_hold_unless_the_operation_has_its_own() {
    let item = json!({
        "parameters": [{"$ref": "#/components/parameters/Id"}, {"name": "page", "in": "query", "schema": {"type": "integer"}}],
        "get": {"operationId": "list", "parameters": [{"name": "page", "in": "query", "schema": {"type": "string"}}]},
    });
    let document = of("3.1.0", &json!({"/pets/{id}": item}), &json!({"parameters": {"Id": ID()}}));
    let properties = &schema(&document.tools[0])["properties"];
    assert_eq!(properties, &json!({"id": {"type": "string"}, "page": {"type": "string"}}));
}

#[test]
fn a_name_that_is_taken_has_its_place_in_front() {
    let tool = tool(&json!({
        "parameters": [ID(), {"name": "id", "in": "query"}, {"name": "id", "in": "header"}, {"name": "body", "in": "query"}],
        "requestBody": {"content": {"application/json": {}}},
    }));
    let request = tool
        .request(&json!({"id": "p", "query_id": "q", "header_id": "h", "body": "b", "request_body": [1]}), 0);
    let request = request.unwrap();
    assert_eq!(sent(&request), "POST /pets/p?id=q&body=b [1]");
    assert_eq!(request.headers["id"], "h");
    // Without its body, a POST has an empty one.
    assert_eq!(sent(&tool.request(&json!({"id": "p"}), 0).unwrap()), "POST /pets/p ");
}

#[test]
fn lists_and_objects_in_a_query_follow_their_style() {
    let list = json!({"type": "array", "items": {"type": "string"}});
    let tool = tool(&json!({"parameters": [
        ID(),
        {"name": "tags", "in": "query", "schema": list},
        {"name": "ids", "in": "query", "explode": false, "schema": list},
        {"name": "where", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
        {"name": "free", "in": "query", "schema": {"type": "object"}},
        {"name": "json", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
    ]}));
    let arguments = json!({"id": "1", "tags": ["a", "b&c"], "ids": ["1", "2"], "where": {"x": 1}, "free": {"k": "v"}, "json": {"a": []}});
    assert_eq!(
        sent(&tool.request(&arguments, 0).unwrap()),
        "POST /pets/1?tags=a&tags=b%26c&ids=1,2&where%5Bx%5D=1&k=v&json=%7B%22a%22%3A%5B%5D%7D "
    );
    // No argument takes the place of another parameter.
    assert!(tool.request(&json!({"id": "1", "free": {"ids": "9"}}), 0).is_err());
}

#[test]
fn schemas_of_3_0_become_json_schemas() {
    let body = json!({"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "nullable": true, "example": 3},
        "kind": {"type": "string", "enum": ["a"], "nullable": true},
        "owner": {"allOf": [{"$ref": "#/components/schemas/Owner"}], "nullable": true},
        "x": {"type": "string", "format": "uuid", "xml": {}, "discriminator": {}, "x-own": 1},
    }});
    let paths = json!({"/a": {"post": {"operationId": "a", "requestBody": {"content": {"application/json": {"schema": body}}}}}});
    let document =
        of("3.0.1", &paths, &json!({"schemas": {"Owner": {"type": "object", "required": ["name"]}}}));
    let tool = &document.tools[0];
    assert_eq!(
        schema(tool)["properties"]["body"]["properties"],
        json!({
            "size": {"type": ["integer", "null"], "exclusiveMinimum": 0},
            "kind": {"type": ["string", "null"], "enum": ["a", null]},
            "owner": {"anyOf": [{"allOf": [{"type": "object", "required": ["name"]}]}, {"type": "null"}]},
            "x": {"type": "string", "format": "uuid"},
        })
    );
    let fits = |body: Value| tool.request(&json!({"body": body}), 0).is_ok();
    assert!(fits(json!({"size": 1, "kind": null, "owner": null})) && fits(json!({"owner": {"name": 1}})));
    assert!(!fits(json!({"size": 0})) && !fits(json!({"kind": "b"})) && !fits(json!({"owner": {}})));
}

#[test]
fn a_schema_that_contains_itself_is_cut() {
    let node = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "next": {"$ref": "#/components/schemas/Node"},
        "one": {"oneOf": [{"$ref": "#/components/schemas/Node"}, {"type": "string"}]},
        "not": {"not": {"$ref": "#/components/schemas/Node"}}}});
    let body = json!({"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}});
    let paths = json!({"/a": {"post": {"operationId": "a", "requestBody": body}}});
    let components = json!({"schemas": {"Node": node, "Self": {"$ref": "#/components/schemas/Self"}}});
    let document = of("3.1.0", &paths, &components);
    let properties = &schema(&document.tools[0])["properties"]["body"]["properties"];
    assert_eq!(
        properties,
        &json!({"name": {"type": "string"}, "next": {}, "one": {"anyOf": [{}, {"type": "string"}]}, "not": {}})
    );
    let fits = |body: Value| document.tools[0].request(&json!({"body": body}), 0).is_ok();
    assert!(
        fits(json!({"name": "a", "next": {"anything": 1}, "one": "s", "not": 1}))
            && !fits(json!({"next": {}}))
    );
}

/// Each level refers to the next one twice: written out it would have 2^30 places.
#[test]
fn a_schema_that_grows_is_bounded() {
    let mut schemas = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("#/components/schemas/L{}", level + 1)});
        schemas.insert(format!("L{level}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
    }
    schemas.insert("L30".to_owned(), json!({"type": "string"}));
    let body = json!({"content": {"application/json": {"schema": {"$ref": "#/components/schemas/L0"}}}});
    let paths = json!({"/a": {"post": {"operationId": "a", "requestBody": body}}});
    let document = of("3.1.0", &paths, &json!({"schemas": schemas}));
    assert!(document.tools[0].definition.len() < 1 << 20, "{}", document.tools[0].definition.len());
}

/// A small document that means a large schema, many times.
#[test]
fn a_list_that_is_too_long_takes_anything() {
    let wide = json!({"anyOf": vec![json!(true); 20_000], "type": "object"});
    let member = |number: usize| (format!("m{number}"), json!({"$ref": "#/components/schemas/Wide"}));
    let properties: serde_json::Map<String, Value> = (0..60).map(member).collect();
    let schema = json!({"type": "object", "properties": properties, "required": ["m0"]});
    let body = json!({"content": {"application/json": {"schema": schema}}});
    let paths = json!({"/a": {"post": {"operationId": "a", "requestBody": body}}});
    let document = of("3.1.0", &paths, &json!({"schemas": {"Wide": wide}}));
    let tool = &document.tools[0];
    assert!(tool.definition.len() < 128 << 10, "{}", tool.definition.len());
    assert!(tool.request(&json!({"body": {"m7": "no object"}}), 0).is_ok());
}

#[test]
fn operations_with_too_many_parameters_and_too_long_names_are_no_tools() {
    let parameters: Vec<Value> =
        (0..501).map(|number| json!({"name": format!("c{number}"), "in": "cookie"})).collect();
    let paths = json!({"/a": {"get": {"operationId": "a", "parameters": parameters}}});
    let document = of("3.1.0", &paths, &json!({}));
    assert_eq!(document.left_out[0].why, "it lists more than 500 parameters");
    let long = json!({"openapi": "3.1.0", "paths": {"/a": {"get": {"operationId": "a".repeat(2000)}}}});
    assert_eq!(
        problems(&long),
        [(".paths./a.get.operationId".to_owned(), "has more than 1024 bytes".to_owned())]
    );
}

/// Which operations a client may use is decided by the names of their tools.
#[test]
fn no_argument_makes_the_path_of_another_operation() {
    let get = |id: &str| json!({"operationId": id, "parameters": if id == "one" { vec![ID()] } else { Vec::new() }});
    let paths = json!({"/pets/{id}": {"get": get("one")}, "/pets/admin": {"get": get("admin"), "delete": get("drop")}});
    let document = json!({"openapi": "3.1.0", "info": {}, "paths": paths});
    let choice = OperationChoice { is_wanted: &|name| name == "one", is_own_header: &|_| false };
    let tools = read(&document, &choice).unwrap().tools;
    assert_eq!(tools.len(), 1);
    let request = |id: &str| tools[0].request(&json!({"id": id}), 0);
    assert_eq!(request("7").unwrap().path, "/pets/7");
    for id in ["admin", "Admin"] {
        assert_eq!(request(id).unwrap_err(), "The arguments make the path of another operation.");
    }
}

#[test]
fn what_no_tool_can_be_made_of_is_named() {
    let body =
        |media: &str, required: bool| json!({"requestBody": {"required": required, "content": {media: {}}}});
    let document = of(
        "3.1.0",
        &json!({
            "/upload": {"post": body("multipart/form-data", true), "put": body("application/octet-stream", false)},
            "/form": {"post": {"operationId": "form", "requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}}}},
            "/cookie": {"get": {"parameters": [{"name": "sid", "in": "cookie", "required": true}]}},
            "/host": {"get": {"parameters": [{"name": "X-Forwarded-For", "in": "header", "required": true}]}},
            "/open/{id}": {"get": {}},
            "/matrix/{id}": {"get": {"parameters": [{"name": "id", "in": "path", "style": "matrix"}]}},
            "/../up": {"get": {}},
        }),
        &json!({}),
    );
    let names: Vec<&str> = document.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["form", "put_upload"]);
    let left: Vec<&str> = document.left_out.iter().map(|left| left.operation.as_str()).collect();
    assert_eq!(
        left,
        ["GET /../up", "GET /cookie", "GET /host", "GET /matrix/{id}", "GET /open/{id}", "POST /upload"]
    );
    assert!(document.left_out[5].why.contains("multipart/form-data"), "{:?}", document.left_out);
    let request = document.tools[0].request(&json!({"body": {"a": "x y", "b": [1, 2]}}), 0).unwrap();
    assert_eq!(sent(&request), "POST /form a=x%20y&b=1&b=2");
}

#[test]
fn names_are_what_models_take() {
    let id = |id: &str| json!({"operationId": id});
    let paths = json!({"/a": {"get": id("list all"), "put": id("größe"), "post": {}}, "/a/": {"post": {}}});
    let document = of("3.1.0", &paths, &json!({}));
    let names: Vec<&str> = document.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(names[0].starts_with("list_all_") && names[1].starts_with("gr__e_"), "{names:?}");
    assert_eq!(names[2], "post_a");
    assert!(names[3].starts_with("POST__a_"), "{names:?}");
    assert!(names.iter().all(|name| name.len() <= 64 && name.is_ascii()));
}

#[test]
fn all_problems_are_found_at_once() {
    let document = json!({"openapi": "2.9", "paths": {
        "/a": {"get": {"operationId": "x", "parameters": [{"$ref": "other.yaml#/a"}]}, "put": {"operationId": "x"}},
        "/b": {"$ref": "https://example.com/b.json"},
        "/c": {"post": {"requestBody": {"$ref": "#/components/none"}, "x-own": {"$ref": "fine.json"}}},
    }, "components": {"schemas": {"A": {"properties": {"default": {"$ref": "a.json"}}, "example": {"$ref": "fine.json"}}}}});
    let found = problems(&document);
    let mut paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            ".components.schemas.A.properties.default.$ref",
            ".openapi",
            ".paths./a.get.parameters[0].$ref",
            ".paths./a.put.operationId",
            ".paths./b.$ref",
            ".paths./c.post.requestBody.$ref",
        ]
    );
    assert!(found.iter().any(|(_, why)| why == "is that of GET /a too"), "{found:?}");
    assert_eq!(problems(&json!({"swagger": "2.0", "paths": {}}))[0].0, ".swagger");
    assert_eq!(problems(&json!({"openapi": "3.1.0"}))[0].0, ".paths");
    for text in ["", "a: [", "- 1", "{", "a: *a"] {
        assert!(read(&json!(text), &choice()).is_err(), "{text}");
    }
}

#[test]
fn documents_and_operations_are_bounded() {
    let operations = |count: usize| {
        let path =
            |number: usize| (format!("/p{number}"), json!({"get": {"operationId": format!("op{number}")}}));
        let paths: serde_json::Map<String, Value> = (0..count).map(path).collect();
        json!({"openapi": "3.1.0", "paths": paths})
    };
    let many = operations(10_000);
    let found = problems(&many);
    assert_eq!((found.len(), found[0].0.as_str()), (1, ".paths"), "{found:?}");
    assert!(found[0].1.contains("10000 operations"), "{found:?}");
    let some = OperationChoice { is_wanted: &|name| name.ends_with("77"), is_own_header: &|_| false };
    assert_eq!(read(&many, &some).unwrap().tools.len(), 100);
    assert_eq!(read(&operations(MAX_OPERATIONS), &choice()).unwrap().tools.len(), MAX_OPERATIONS);
    // Small as a document, and large as tools.
    let mut shared = operations(200);
    let schema = json!({"type": "object", "description": "d".repeat(30_000)});
    for item in shared["paths"].as_object_mut().unwrap().values_mut() {
        item["get"]["parameters"] =
            json!([{"name": "q", "in": "query", "schema": {"$ref": "#/components/s"}}]);
    }
    shared["components"] = json!({"s": schema});
    assert!(problems(&shared)[0].1.contains("operations.allow"));
    let large = json!({"openapi": "3.1.0", "paths": {}, "x-a": "a".repeat(MAX_DOCUMENT)});
    assert!(problems(&large)[0].1.contains("bytes"));
    // Billions of values, by aliases.
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = level - 1;
        let items = vec![format!("*a{before}"); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert!(read(&json!(bomb), &choice()).is_err());
}

#[test]
fn a_document_may_be_text() {
    let yaml = "openapi: 3.0.0\ninfo: {title: T, version: '1'}\nservers: [{url: https://api.example.com/v2/}]\npaths:\n  /a:\n    get:\n      \
        operationId: a\n      responses:\n        200: {description: ok}\n";
    let document = read(&json!(yaml), &choice()).unwrap();
    assert_eq!((document.title.as_str(), document.version.as_str(), document.tools.len()), ("T", "1", 1));
    assert_eq!(document.server_url.as_deref(), Some("https://api.example.com/v2"));
    let text = r#"{"openapi":"3.1.0","servers":[{"url":"/v2"}],"paths":{"/a":{"get":{}}}}"#;
    let document = read(&json!(text), &choice()).unwrap();
    assert_eq!((document.tools.len(), document.server_url), (1, None));
}

/// A pattern that the gateway's engine cannot read does not take the operation away.
#[test]
fn patterns_are_judged_where_they_can_be() {
    let of = |pattern: &str| {
        tool(
            &json!({"parameters": [ID(), {"name": "q", "in": "query", "schema": {"type": "string", "pattern": pattern}}]}),
        )
    };
    let fits = |tool: &ApiTool, q: &str| tool.request(&json!({"id": "1", "q": q}), 0).is_ok();
    let many: serde_json::Map<String, Value> =
        (0..50).map(|number| (format!("p{number}"), json!({"pattern": "^[a-z]+$"}))).collect();
    let body = json!({"requestBody": {"content": {"application/json": {"schema": {"properties": many}}}}, "parameters": [ID()]});
    assert_eq!(tool(&body).definition.matches("pattern").count(), 16);
    let plain = of("^[a-z]+$");
    assert!(fits(&plain, "abc") && !fits(&plain, "ABC"));
    let ahead = of("^(?=a).*$");
    assert!(fits(&ahead, "b"));
    assert_eq!(schema(&ahead)["properties"]["q"], json!({"type": "string"}));
}

#[test]
fn members_by_a_reference_hold_in_3_1() {
    let schema_of = |version: &str| {
        let q = json!({"$ref": "#/components/schemas/S", "description": "Own.", "maxLength": 3});
        let paths = json!({"/a": {"get": {"parameters": [{"name": "q", "in": "query", "schema": q}]}}});
        let document =
            of(version, &paths, &json!({"schemas": {"S": {"type": "string", "description": "Of S."}}}));
        schema(&document.tools[0])["properties"]["q"].clone()
    };
    assert_eq!(
        schema_of("3.1.0"),
        json!({"allOf": [{"type": "string", "description": "Own."}, {"maxLength": 3}]})
    );
    assert_eq!(schema_of("3.0.3"), json!({"type": "string", "description": "Of S."}));
}
