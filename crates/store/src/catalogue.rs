//! Is the database set up so that row security is a second wall? Read from the catalogue.
//!
//! `kld` asks at start and serves from nothing unsafe; tests ask of the migrated schema, and of one with a hole of each
//! kind. The rules are those of the security page: kld's role owns nothing and cannot get round policies; every table
//! but the listed ones has row security forced, one policy, and keys that begin with the workspace; nothing reads
//! tables with somebody else's rights.

use sqlx::PgConnection;

use crate::{Db, Error, Result};

/// Fails when anything about the database, or about the role this pool logs in with, is unsafe.
///
/// # Errors
///
/// [`Error::UnsafeSetup`] with every problem found.
pub async fn check(db: &Db) -> Result<()> {
    let mut connection = db.system().await?;
    let mut problems = role_problems(&mut connection).await?;
    problems.extend(schema_problems(&mut connection).await?);
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::UnsafeSetup(problems.join("; ")))
    }
}

/// What is unsafe about the role that the connection logged in with.
///
/// # Errors
///
/// Those of the database.
pub async fn role_problems(connection: &mut PgConnection) -> Result<Vec<String>> {
    Ok(sqlx::query_scalar!(
        r#"
            WITH RECURSIVE
            me AS (SELECT * FROM pg_roles WHERE rolname = current_user),
            -- Everything the role can become by SET ROLE, itself included.
            reach AS (
                SELECT oid FROM me
                UNION
                SELECT m.roleid FROM pg_auth_members m JOIN reach r ON m.member = r.oid
            )
            SELECT problem AS "problem!" FROM (
                SELECT 'the role is not a member of kilolock_app' AS problem
                WHERE NOT EXISTS (
                    SELECT FROM reach JOIN pg_roles USING (oid) WHERE rolname = 'kilolock_app'
                )
                UNION ALL
                SELECT format('the role %I is superuser, or becomes one', r.rolname)
                FROM reach JOIN pg_roles r USING (oid) WHERE r.rolsuper
                UNION ALL
                SELECT format('the role %I may bypass row security', r.rolname)
                FROM reach JOIN pg_roles r USING (oid) WHERE r.rolbypassrls
                UNION ALL
                SELECT format('the role %I may make roles or databases', r.rolname)
                FROM reach JOIN pg_roles r USING (oid) WHERE r.rolcreaterole OR r.rolcreatedb
                UNION ALL
                SELECT format('the role owns %s', c.oid::regclass)
                FROM pg_class c WHERE c.relowner IN (SELECT oid FROM reach)
                UNION ALL
                SELECT format('the role may create objects in schema %I', n.nspname)
                FROM pg_namespace n
                WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
                    AND has_schema_privilege(n.oid, 'CREATE')
                UNION ALL
                SELECT format('the role may change or remove rows of %s', c.oid::regclass)
                FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'public' AND c.relname IN ('audit_entries', '_sqlx_migrations')
                    AND (
                        EXISTS (
                            SELECT FROM pg_attribute a
                            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                                -- An entry is linked into its chain after it is written.
                                AND NOT (c.relname = 'audit_entries' AND a.attname IN ('chain_no', 'hash'))
                                AND has_column_privilege(c.oid, a.attnum, 'UPDATE')
                        )
                        OR has_table_privilege(c.oid, 'DELETE')
                    )
                UNION ALL
                SELECT format('the role may truncate %s or put triggers on it', c.oid::regclass)
                FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p')
                    AND has_table_privilege(c.oid, 'TRUNCATE, TRIGGER')
            ) AS problems
            ORDER BY problem
        "#
    )
    .fetch_all(connection)
    .await?)
}

/// What is unsafe about the schema.
///
/// # Errors
///
/// Those of the database.
pub async fn schema_problems(connection: &mut PgConnection) -> Result<Vec<String>> {
    Ok(sqlx::query_scalar!(
        r#"
            WITH
            ours AS (
                SELECT c.*, c.oid::regclass::text AS label
                FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
                    -- What an extension brought is the extension's affair.
                    AND NOT EXISTS (
                        SELECT FROM pg_depend d
                        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
                    )
            ),
            -- Tables without row security: read before the workspace is known, and nothing in them is a tenant's to see.
            tenant AS (
                SELECT * FROM ours
                WHERE relkind IN ('r', 'p')
                    AND label NOT IN (
                        'workspaces', 'credentials', 'lock_service', 'job_queue', 'job_turns', '_sqlx_migrations'
                    )
            ),
            keys AS (
                SELECT t.label, i.indexrelid::regclass::text AS index, a.attname AS first_column
                FROM tenant t
                JOIN pg_index i ON i.indrelid = t.oid AND i.indisunique
                LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]
            )
            SELECT problem AS "problem!" FROM (
                SELECT format('%s does not have row security enabled and forced', label) AS problem
                FROM tenant WHERE NOT (relrowsecurity AND relforcerowsecurity)
                UNION ALL
                SELECT format('%s has no column workspace_id text NOT NULL', label)
                FROM tenant t
                WHERE NOT EXISTS (
                    SELECT FROM pg_attribute a
                    WHERE a.attrelid = t.oid AND a.attname = 'workspace_id'
                        AND a.atttypid = 'text'::regtype AND a.attnotnull
                )
                UNION ALL
                SELECT format('%s does not have exactly one policy', label)
                FROM tenant t
                WHERE (SELECT count(*) FROM pg_policy p WHERE p.polrelid = t.oid) <> 1
                UNION ALL
                SELECT format('the policy %I of %s is not the workspace policy', p.polname, t.label)
                FROM tenant t JOIN pg_policy p ON p.polrelid = t.oid
                WHERE NOT (
                    p.polcmd = '*' AND p.polpermissive AND p.polroles = '{0}'
                    AND coalesce(pg_get_expr(p.polqual, p.polrelid), '') =
                        '(workspace_id = NULLIF(current_setting(''kl.workspace''::text, true), ''''::text))'
                    AND coalesce(pg_get_expr(p.polwithcheck, p.polrelid), '') =
                        '(workspace_id = NULLIF(current_setting(''kl.workspace''::text, true), ''''::text))'
                )
                UNION ALL
                SELECT format('the unique index %s does not begin with workspace_id', index)
                FROM keys WHERE first_column IS DISTINCT FROM 'workspace_id'
                UNION ALL
                SELECT format('the foreign key %I of %s does not begin with workspace_id', f.conname, t.label)
                FROM tenant t
                JOIN pg_constraint f ON f.conrelid = t.oid AND f.contype = 'f'
                JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = f.conkey[1]
                WHERE a.attname <> 'workspace_id'
                UNION ALL
                SELECT format('the view %s reads with its owner''s rights', label)
                FROM ours
                WHERE relkind = 'v'
                    AND NOT coalesce(reloptions @> '{security_invoker=true}'
                        OR reloptions @> '{security_invoker=on}', false)
                UNION ALL
                SELECT format('%s is a materialized view', label) FROM ours WHERE relkind = 'm'
                UNION ALL
                SELECT format('the function %s runs with its owner''s rights', p.oid::regprocedure)
                FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                WHERE p.prosecdef AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
            ) AS problems
            ORDER BY problem
        "#
    )
    .fetch_all(connection)
    .await?)
}
